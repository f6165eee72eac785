//! `stripewise lab` as users run it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_stripewise")).arg("lab").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_validation_prints_a_table_and_writes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a").join("b");
    let output = lab(&["validate", "--quick", "--out", out.to_str().unwrap()]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("ST373454LC") && table.contains("S_max of writes"), "{table}");
    assert!(table.lines().last().unwrap().contains("given by construction"), "{table}");

    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.matches("<svg").count() >= 7 && page.ends_with("</html>\n"));
    let network = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!network.contains("http") && !network.contains("src="), "the page needs nothing else");
    for name in ["checks", "strides-write", "amplification", "ssd-steady", "queue-depth-ssd", "hdd-zones"] {
        let text = std::fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
        assert!(text.lines().count() > 3, "{name}: {text}");
    }
}

#[test]
fn the_validation_speaks_json() {
    let output = lab(&["validate", "--quick", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = &report["sections"][0]["checks"][0];
    assert_eq!((&check["subject"], &check["verdict"]), (&"WD6401AALS".into(), &"given".into()), "{check}");
}
