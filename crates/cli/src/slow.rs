//! Members that do not answer, in words.

use std::collections::BTreeMap;

use stripewise_wire::SlowStatus;

/// Which members have not answered, what, and for how long. None if all answer.
pub(crate) fn text(members: &BTreeMap<String, SlowStatus>) -> Option<String> {
    let texts: Vec<_> = members.iter().map(|(member, slow)| of_member(member, slow)).collect();
    (!texts.is_empty()).then(|| texts.join(", and "))
}

/// What one member has not answered, and for how long.
pub(crate) fn of_member(member: &str, slow: &SlowStatus) -> String {
    let SlowStatus { requests, oldest_s } = *slow;
    match requests {
        1 => format!("{member} has not answered a request for {oldest_s:.0} s"),
        _ => format!("{member} has not answered {requests} requests, the oldest for {oldest_s:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_with_the_age_of_their_oldest_request() {
        let slow = |requests, oldest_s| SlowStatus { requests, oldest_s };
        assert_eq!(text(&BTreeMap::new()), None);
        let members = [("/dev/a".to_owned(), slow(1, 7.2)), ("/dev/b".to_owned(), slow(3, 65.0))];
        assert_eq!(
            text(&members.into()).unwrap(),
            "/dev/a has not answered a request for 7 s, and /dev/b has not answered 3 requests, the oldest for 65 s"
        );
    }
}
