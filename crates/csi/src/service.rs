//! The calls of the CSI specification: checks of their arguments, and gRPC codes of errors.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tonic::{Code, Request, Response, Status};

use crate::content::Content;
use crate::driver::{Driver, Refused, Size};
use crate::limits::{CALLS_MAX, DRIVER, TOPOLOGY, VOLUMES_MAX};
use crate::target;
use crate::v1::identity_server::Identity;
use crate::v1::node_server::Node;
use crate::v1::node_service_capability::{Rpc, Type as NodeCapability, rpc};
use crate::v1::plugin_capability::{Service, Type as PluginType, service};
use crate::v1::volume_capability::access_mode::Mode;
use crate::v1::volume_capability::{AccessMode, AccessType};
use crate::v1::volume_usage::Unit;
use crate::v1::*;
use crate::volume::told;

type Answer<T> = std::result::Result<Response<T>, Status>;

/// The gRPC services of the driver.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    driver: Arc<Driver>,
    node: String,
    turns: Arc<Semaphore>,
}

impl Calls {
    pub(crate) fn new(driver: Arc<Driver>, node: String) -> Self {
        Self { driver, node, turns: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Runs a blocking call in a thread of its own.
    async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Driver) -> Result<T, Refused> + Send + 'static,
    ) -> std::result::Result<T, Status> {
        let _turn = self.turns.acquire().await.map_err(|e| Status::internal(e.to_string()))?;
        let driver = self.driver.clone();
        let done = tokio::task::spawn_blocking(move || call(&driver)).await;
        done.map_err(|e| Status::internal(e.to_string()))?.map_err(|refused| status(&refused))
    }
}

fn status(refused: &Refused) -> Status {
    let e = match refused {
        Refused::Busy => return Status::aborted("another call changes this volume: try again"),
        Refused::Other => return Status::already_exists("the volume is at the target with other attributes"),
        Refused::Failed(e) => e,
    };
    let code = match e.kind() {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Conflict => Code::FailedPrecondition,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Data | ErrorKind::Function | ErrorKind::Version | ErrorKind::Closed | ErrorKind::Internal => {
            Code::Internal
        }
    };
    Status::new(code, told(e))
}

fn given<'a>(name: &str, value: &'a str) -> Result<&'a str, Error> {
    if value.is_empty() { Err(Error::invalid(format!("{name} is missing"))) } else { Ok(value) }
}

/// Checks a volume capability: a read-only mount.
fn check(capability: Option<&VolumeCapability>, readonly: bool) -> Result<()> {
    let capability = capability.ok_or_else(|| Error::invalid("volume_capability is missing"))?;
    let mount = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => return Err(Error::invalid("a volume of this driver is no block device")),
        None => return Err(Error::invalid("access_type is missing: the driver has volumes to mount")),
    };
    if let Some(flag) = mount.mount_flags.iter().find(|flag| *flag != "ro") {
        return Err(Error::invalid(format!("the driver has no mount option {flag:?}")));
    }
    match capability.access_mode.as_ref().map(AccessMode::mode) {
        None | Some(Mode::Unknown) => Err(Error::invalid("access_mode is missing")),
        Some(Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly) => Ok(()),
        Some(_) if readonly => Ok(()),
        Some(mode) => {
            let message =
                format!("volumes of this driver are read-only, and the access mode is {}", mode.as_str_name());
            Err(Error::new(ErrorKind::Conflict, message).hint("accessModes: [ReadOnlyMany], or readOnly: true"))
        }
    }
}

#[tonic::async_trait]
impl Identity for Calls {
    async fn get_plugin_info(&self, _: Request<GetPluginInfoRequest>) -> Answer<GetPluginInfoResponse> {
        let (name, vendor_version) = (DRIVER.to_owned(), forebay_core::VERSION.to_owned());
        Ok(Response::new(GetPluginInfoResponse { name, vendor_version }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Answer<GetPluginCapabilitiesResponse> {
        let service = Service { r#type: service::Type::VolumeAccessibilityConstraints as i32 };
        let capability = PluginCapability { r#type: Some(PluginType::Service(service)) };
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: vec![capability] }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Answer<ProbeResponse> {
        match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            Ok(_) => Ok(Response::new(ProbeResponse { ready: Some(true) })),
            Err(e) => Err(Status::failed_precondition(format!("/dev/fuse cannot be opened: {e}"))),
        }
    }
}

#[tonic::async_trait]
impl Node for Calls {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        let request = request.into_inner();
        self.run(move |driver| {
            let id = given("volume_id", &request.volume_id)?;
            given("target_path", &request.target_path)?;
            check(request.volume_capability.as_ref(), request.readonly)?;
            if !request.secrets.is_empty() {
                let hint = "give the driver's DaemonSet the credentials in its environment";
                return Err(Error::invalid("the driver takes no secrets of a volume").hint(hint).into());
            }
            let content = Content::read(&request.volume_context)?;
            driver.publish(id, &target::whole(&request.target_path)?, content)
        })
        .await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        let request = request.into_inner();
        self.run(move |driver| {
            let id = given("volume_id", &request.volume_id)?;
            given("target_path", &request.target_path)?;
            match target::whole(&request.target_path) {
                // Without its parent, the target has no mount.
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
                whole => driver.unpublish(id, &whole?),
            }
        })
        .await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        let request = request.into_inner();
        let look = move |driver: &Driver| {
            let id = given("volume_id", &request.volume_id)?;
            given("volume_path", &request.volume_path)?;
            // No volume is at a path that cannot be a target.
            let at = target::whole(&request.volume_path).unwrap_or_else(|_| PathBuf::from(&request.volume_path));
            Ok(driver.look(id, &at)?)
        };
        let (size, wrong) = self.run(look).await?;
        let usage = size.map(usage).unwrap_or_default();
        let message = if wrong.is_empty() { "the volume is served".to_owned() } else { wrong.clone() };
        let volume_condition = Some(VolumeCondition { abnormal: !wrong.is_empty(), message });
        Ok(Response::new(NodeGetVolumeStatsResponse { usage, volume_condition }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        let capability = |of: rpc::Type| {
            let rpc = Rpc { r#type: of as i32 };
            NodeServiceCapability { r#type: Some(NodeCapability::Rpc(rpc)) }
        };
        let capabilities = [rpc::Type::GetVolumeStats, rpc::Type::VolumeCondition].map(capability).to_vec();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        let segments = [(TOPOLOGY.to_owned(), self.node.clone())].into();
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.node.clone(),
            max_volumes_per_node: VOLUMES_MAX as i64,
            accessible_topology: Some(Topology { segments }),
        }))
    }
}

/// The usage of a volume. The total is 0 for a store, which does not report its size.
fn usage(size: Size) -> Vec<VolumeUsage> {
    let of = |unit: Unit, total: u64, free: u64| VolumeUsage {
        available: i64::try_from(free).unwrap_or(i64::MAX),
        total: i64::try_from(total).unwrap_or(i64::MAX),
        used: i64::try_from(total.saturating_sub(free)).unwrap_or(i64::MAX),
        unit: unit as i32,
    };
    vec![of(Unit::Bytes, size.bytes, size.free), of(Unit::Inodes, size.inodes, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::volume_capability::{BlockVolume, MountVolume};

    #[test]
    fn only_files_to_read_are_given() {
        let of = |mode: Mode, flags: &[&str]| {
            let mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let mount = MountVolume { mount_flags, ..MountVolume::default() };
            let access_mode = Some(AccessMode { mode: mode as i32 });
            VolumeCapability { access_mode, access_type: Some(AccessType::Mount(mount)) }
        };
        for (mode, flags, readonly, expected) in [
            (Mode::MultiNodeReaderOnly, &[][..], false, None),
            (Mode::SingleNodeReaderOnly, &["ro"], true, None),
            (Mode::SingleNodeWriter, &[], true, None),
            (Mode::SingleNodeWriter, &[], false, Some(ErrorKind::Conflict)),
            (Mode::MultiNodeMultiWriter, &[], false, Some(ErrorKind::Conflict)),
            (Mode::Unknown, &[], true, Some(ErrorKind::Invalid)),
            (Mode::MultiNodeReaderOnly, &["exec"], true, Some(ErrorKind::Invalid)),
        ] {
            let said = check(Some(&of(mode, flags)), readonly).err().map(|e| e.kind());
            assert_eq!(said, expected, "{mode:?} {flags:?}");
        }
        assert_eq!(check(None, true).expect_err("none").kind(), ErrorKind::Invalid);
        let block = AccessType::Block(BlockVolume {});
        let block = VolumeCapability { access_type: Some(block), ..of(Mode::MultiNodeReaderOnly, &[]) };
        assert_eq!(check(Some(&block), true).expect_err("a block device").kind(), ErrorKind::Invalid);
    }
}
