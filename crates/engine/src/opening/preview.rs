//! What a new array would be. It is found in the same way as at creation, but nothing is written.

use std::sync::Arc;

use stripewise_device::{Device, EnvHandle};
use stripewise_format::extension::MemberClass;

use super::{
    advice::advice,
    create::{CreateError, CreateOptions, moves_parity, prepare},
};
use crate::{
    life::detached::on_worker,
    members::measure::{ServiceTimes, Touch, class_of},
};

/// What a new array would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The members by role, as they would be; `None` for one that is missing.
    pub members: Vec<Option<String>>,
    /// What is worth saying about its shape; see [`advice()`](crate::advice()).
    pub advice: Vec<String>,
    /// Whether the choice of the parity member rests on how long reads took just now. Making the array
    /// measures again, with writes, and may then choose another of several similar members.
    pub is_measured: bool,
}

/// What [`Array::create`](crate::Array::create) would make of these options. Any thread may call this.
/// Nothing is written. Members are read if they are to be measured.
///
/// # Errors
/// Those of [`CreateError`] that are found before anything is written.
pub async fn preview(env: EnvHandle, options: CreateOptions) -> Result<Preview, CreateError> {
    let at = env.clone();
    Box::pin(on_worker(&at, preview_here(env, options))).await
}

async fn preview_here(env: EnvHandle, mut options: CreateOptions) -> Result<Preview, CreateError> {
    let given = options.clone();
    let traits = prepare(&env, &mut options, (Touch::ReadOnly, false)).await?;
    let name = |member: &Option<Arc<dyn Device>>| Some(member.as_ref()?.info().name.clone());
    let members: Vec<_> = options.members.iter().map(name).collect();
    let class = |name: &Option<String>| name.as_ref().map_or(MemberClass::Unknown, |name| traits[name].class);
    let classes: Vec<_> = members.iter().map(class).collect();
    Ok(Preview {
        advice: advice(options.level, &classes),
        is_measured: moves_parity(&given) && given.measure && !classes_decide(&given),
        members,
    })
}

/// Whether the fastest member is known without a measurement: it is the only flash among hard disks.
fn classes_decide(options: &CreateOptions) -> bool {
    let class = |device: &Arc<dyn Device>| {
        let given = options.classes.get(&device.info().name).copied();
        given.unwrap_or_else(|| class_of(device.info().media, &ServiceTimes::default()))
    };
    let classes: Vec<_> = options.members.iter().flatten().map(class).collect();
    let is_ssd = |class: &&MemberClass| **class == MemberClass::Ssd;
    !classes.contains(&MemberClass::Unknown) && classes.iter().filter(is_ssd).count() == 1
}
