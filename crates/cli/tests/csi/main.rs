//! The CSI driver, called over its socket as kubelet calls it, with real mounts. A machine that may not mount skips all.

#![expect(clippy::disallowed_methods, reason = "tests poll processes, and wait in threads")]

mod world;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::sync::atomic::Ordering;

use forebay_csi::v1::identity_client::IdentityClient;
use forebay_csi::v1::node_client::NodeClient;
use forebay_csi::v1::volume_capability::access_mode::Mode;
use forebay_csi::v1::{
    GetPluginInfoRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodePublishVolumeRequest, ProbeRequest,
};
use tonic::Code;
use tonic::transport::Endpoint;

use world::{
    FOREBAY, GATED, Node, Web, body, cannot_mount, capability, hands_reads_on, in_time, read_at, refused, wait_until,
};

const FILE: usize = 8 << 20;

/// Ends a test where nothing can be mounted.
macro_rules! needs_mounts {
    () => {
        if let Some(reason) = cannot_mount() {
            eprintln!("skipped: {reason}");
            return;
        }
    };
}

/// Fills the node's folder of data, and returns it as a source.
fn data(node: &Node) -> String {
    for (name, seed) in [("a", 1), ("b", 2)] {
        std::fs::write(node.at("data").join(name), body(seed, FILE)).expect("written");
    }
    format!("local://{}", node.at("data").display())
}

#[test]
fn pods_read_a_volume_until_the_last_of_them_goes() {
    needs_mounts!();
    let node = Node::new(&[]);
    let (local, far) = (data(&node), Web::new(Some(body(3, 3 << 20)), true).url);
    let sources = [("near", local.as_str()), ("far", far.as_str())];
    let mut request = node.request("volume", "one", &sources);
    let tiers = format!(r#"[{{"path":"{}","quota":100000000,"medium":"SSD"}}]"#, node.at("ssd/x").display());
    request.volume_context.insert("tiers".to_owned(), tiers);
    let of_two = NodePublishVolumeRequest { target_path: node.request("", "two", &[]).target_path, ..request.clone() };
    for request in [&request, &of_two, &request] {
        node.call(request.clone()).expect("published");
    }
    assert_eq!(node.mounts().len(), 3, "one mount, and two places: {:?}", node.mounts());
    for pod in ["one", "two"] {
        assert_eq!(node.read(pod, "near/a"), body(1, FILE));
        assert_eq!(node.read(pod, "far/file.bin"), body(3, 3 << 20));
        let refused = std::fs::write(node.at("pods").join(pod).join("near/new"), "x").expect_err("read-only");
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        let stats = node.stats("volume", pod).expect("there");
        assert!(stats.usage[0].total > 0, "{stats:?}");
        assert!(!stats.volume_condition.expect("known").abnormal);
    }
    wait_until("pages are kept in the tier", || {
        std::fs::read_dir(node.at("ssd/x/forebay")).is_ok_and(|mut names| names.next().is_some())
    });
    // Other attributes of the same volume are another mount; not at the same place.
    refused(node.publish("volume", "one", &[("", &local)]), Code::AlreadyExists, "other attributes");
    node.publish("volume", "three", &[("", &local)]).expect("published");
    assert_eq!(node.read("three", "b"), body(2, FILE));
    assert_eq!(node.mounts().len(), 5);
    for pod in ["two", "three", "three", "none", "one"] {
        node.unpublish("volume", pod).expect("unpublished");
    }
    assert_eq!(node.stats("volume", "one").expect_err("gone").code(), Code::NotFound);
    node.assert_clean();
}

#[test]
fn a_volume_with_prefetch_is_read_before_a_pod_reads_it() {
    needs_mounts!();
    let node = Node::new(&[]);
    let far = Web::new(Some(body(3, 3 << 20)), true);
    let mut request = node.request("volume", "one", &[("", &far.url)]);
    let tiers = format!(r#"[{{"path":"{}","quota":100000000,"medium":"SSD"}}]"#, node.at("ssd/x").display());
    request.volume_context.extend([("tiers".to_owned(), tiers), ("prefetch".to_owned(), "true".to_owned())]);
    node.call(request).expect("published");
    let status = || {
        let asked = Command::new(FOREBAY).args(["mount", "--status"]).arg(node.at("pods/one")).output();
        String::from_utf8(asked.expect("it starts").stdout).expect("text")
    };
    wait_until("the prefetch is done", || status().starts_with("prefetch done: 1 of 1 files, 3.0 MiB of 3.0 MiB"));
    node.unpublish("volume", "one").expect("unpublished");
    node.assert_clean();
}

/// Runs where `FOREBAY_CSI_SANITY` names the program `csi-sanity` of Kubernetes.
#[test]
fn the_driver_passes_csi_sanity() {
    needs_mounts!();
    let Some(program) = std::env::var_os("FOREBAY_CSI_SANITY") else {
        eprintln!("skipped: FOREBAY_CSI_SANITY names no csi-sanity");
        return;
    };
    let node = Node::new(&[]);
    let mut command = Command::new(program);
    // The driver has no controller, so no volume can be created: the two of the node's specs that do are left out.
    let without = "Controller Server|should remove target path|does not exist on the specified path";
    command.args(["--csi.endpoint", &node.endpoint(), "--ginkgo.no-color", "--ginkgo.skip", without]);
    for (option, folder) in [("--csi.mountdir", "pods/target"), ("--csi.stagingdir", "pods/staging")] {
        command.arg(option).arg(node.at(folder));
    }
    let done = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("13 Passed | 0 Failed"), "{said}");
}

#[test]
fn the_plugin_says_what_it_is() {
    needs_mounts!();
    let node = Node::new(&[]);
    let endpoint = Endpoint::try_from(node.endpoint()).expect("an endpoint");
    node.runtime().block_on(async {
        let channel = endpoint.connect().await.expect("it answers");
        let mut identity = IdentityClient::new(channel.clone());
        let info = identity.get_plugin_info(GetPluginInfoRequest {}).await.expect("answered").into_inner();
        assert_eq!((info.name.as_str(), info.vendor_version.is_empty()), (forebay_csi::DRIVER, false));
        assert_eq!(identity.probe(ProbeRequest {}).await.expect("answered").into_inner().ready, Some(true));
        let mut node = NodeClient::new(channel);
        let info = node.node_get_info(NodeGetInfoRequest {}).await.expect("answered").into_inner();
        assert_eq!((info.node_id.as_str(), info.max_volumes_per_node), ("one", 256));
        assert_eq!(info.accessible_topology.expect("there").segments[forebay_csi::TOPOLOGY], "one");
        let capabilities = node.node_get_capabilities(NodeGetCapabilitiesRequest {}).await.expect("answered");
        assert_eq!(capabilities.into_inner().capabilities.len(), 2);
    });
}

#[test]
fn files_go_on_when_any_of_the_processes_is_killed() {
    needs_mounts!();
    let mut node = Node::new(&[]);
    let local = data(&node);
    node.publish("volume", "pod", &[("", &local)]).expect("published");
    let open = File::open(node.at("pods/pod/a")).expect("opens");
    let expected = body(1, FILE);
    let mut at = 0;
    let mut reads = |node: &Node, what: &str| {
        // Far enough from the place before that the system has not read it ahead.
        let read = read_at(&open, at as u64, 4096).unwrap_or_else(|e| panic!("{what}: {e}; {}", node.log()));
        assert_eq!(read, expected[at..at + 4096], "{what}");
        at += 1 << 20;
        let names = node.at("pods/pod");
        let names = in_time(what, move || std::fs::read_dir(names).map(Iterator::count));
        assert_eq!(names.ok(), Some(2), "{what}");
        File::open(node.at("pods/pod/b")).unwrap_or_else(|e| panic!("{what}: {e}"));
    };
    reads(&node, "at first");
    assert_eq!(node.kill("--keeper"), 1);
    reads(&node, "after the keeper");
    wait_until("the condition is good again", || {
        node.stats("volume", "pod").is_ok_and(|stats| stats.volume_condition.is_some_and(|of| !of.abnormal))
    });
    node.kill_driver();
    reads(&node, "after the driver");
    node.start();
    assert_eq!(node.kill("--keeper"), 1);
    reads(&node, "after the keeper that the new driver found");
    node.kill_driver();
    assert_eq!(node.kill("--keeper"), 1);
    node.start();
    reads(&node, "after both");
    assert_eq!(node.kill("--hold"), 1);
    wait_until("there is a holder again", || node.processes().iter().any(|(_, line)| line.contains("--hold")));
    node.kill_driver();
    assert_eq!(node.kill("--hold"), 1);
    node.start();
    reads(&node, "after driver and holder");
    assert_eq!(node.kill("--keeper"), 1);
    reads(&node, "and the keeper behind them");
    // The new driver mounts again what the dead keeper served.
    node.publish_in_the_end("volume", "late", &[("", &local)]).expect("published");
    assert_eq!(node.read("late", "b"), body(2, FILE));
    drop(open);
    for pod in ["pod", "late"] {
        node.unpublish("volume", pod).expect("unpublished");
    }
    node.assert_clean();
}

#[test]
fn a_read_that_is_under_way_is_answered_by_the_next_keeper() {
    needs_mounts!();
    let node = Node::new(&[]);
    let expected = body(4, 3 << 20);
    let web = Web::new(Some(expected.clone()), false);
    node.publish("volume", "pod", &[("", &web.url)]).expect("published");
    let open = File::open(node.at("pods/pod/file.bin")).expect("opens");
    let read = std::thread::scope(|scope| {
        let read = scope.spawn(|| read_at(&open, GATED as u64 + 77, 4096));
        wait_until("the keeper asks the store", || web.waited.load(Ordering::Relaxed) > 0);
        assert_eq!(node.kill("--keeper"), 1);
        web.is_open.store(true, Ordering::Relaxed);
        read.join().expect("no panic")
    });
    match read {
        Ok(read) => assert_eq!(read, expected[GATED + 77..GATED + 77 + 4096]),
        // Before Linux 6.9, the system gives such a read to no other process.
        Err(e) => assert!(!hands_reads_on(), "{e}; {}", node.log()),
    }
    drop(open);
    node.unpublish("volume", "pod").expect("unpublished");
    node.assert_clean();
}

#[test]
fn pods_that_follow_the_nodes_mounts_see_a_new_one_when_all_is_killed() {
    needs_mounts!();
    let mut node = Node::new(&[]);
    let local = data(&node);
    node.publish("volume", "pod", &[("", &local)]).expect("published");
    assert_eq!(node.read("pod", "a"), body(1, FILE));
    node.kill_driver();
    node.kill("");
    let is_dead = |e: std::io::Error| e.kind() == std::io::ErrorKind::NotConnected;
    wait_until("the mount is dead", || std::fs::read_dir(node.at("pods/pod")).is_err_and(is_dead));
    node.start();
    wait_until("it is mounted anew", || std::fs::read_dir(node.at("pods/pod")).is_ok());
    assert_eq!(node.read("pod", "a"), body(1, FILE));
    node.unpublish("volume", "pod").expect("unpublished");
    node.assert_clean();
}

#[test]
fn a_call_that_cannot_be_done_says_why_and_leaves_nothing() {
    needs_mounts!();
    let node = Node::new(&[]);
    let local = data(&node);
    let none = format!("{local}/none");
    let away = "http://127.0.0.1:1/file.bin";
    for (id, pod, sources, code, text) in [
        ("", "pod", [("", local.as_str())], Code::InvalidArgument, "volume_id"),
        ("v", "", [("", local.as_str())], Code::InvalidArgument, "target_path"),
        ("v", "a/b", [("", local.as_str())], Code::NotFound, "folder above a target"),
        ("v", "../pod/..", [("", local.as_str())], Code::InvalidArgument, "no absolute path"),
        ("v", "pod", [("", none.as_str())], Code::NotFound, "there is no such file"),
        ("v", "pod", [("", "local:///etc")], Code::PermissionDenied, "--local"),
        ("v", "pod", [("", "pvc://claim/x")], Code::InvalidArgument, "fluid"),
        ("v", "pod", [("", "http://127.0.0.1:1/")], Code::InvalidArgument, "cannot list"),
        ("v", "pod", [("", away)], Code::Unavailable, "127.0.0.1:1"),
    ] {
        refused(node.publish(id, pod, &sources), code, text);
    }
    let request = node.request("v", "pod", &[("", &local)]);
    let with = |change: &dyn Fn(&mut NodePublishVolumeRequest)| {
        let mut request = request.clone();
        change(&mut request);
        node.call(request)
    };
    let insert = |map: &mut std::collections::HashMap<String, String>, name: &str, value: &str| {
        map.insert(name.to_owned(), value.to_owned());
    };
    refused(with(&|of| of.volume_capability = None), Code::InvalidArgument, "volume_capability");
    refused(with(&|of| insert(&mut of.secrets, "key", "x")), Code::InvalidArgument, "no secrets");
    refused(with(&|of| insert(&mut of.volume_context, "tier", "[]")), Code::InvalidArgument, "\"tier\"");
    refused(with(&|of| insert(&mut of.volume_context, "tiers", "[{")), Code::InvalidArgument, "\"tiers\"");
    let tier = r#"[{"path":"/etc","quota":1,"medium":"SSD"}]"#;
    refused(with(&|of| insert(&mut of.volume_context, "tiers", tier)), Code::PermissionDenied, "--tier");
    let writer = |of: &mut NodePublishVolumeRequest| {
        of.volume_capability = Some(capability(Mode::MultiNodeMultiWriter));
        of.readonly = false;
    };
    refused(with(&writer), Code::FailedPrecondition, "read-only");
    node.assert_clean();

    let target = node.at("pods/pod");
    std::fs::create_dir(&target).expect("made");
    rustix::mount::mount("tmpfs", &target, "tmpfs", rustix::mount::MountFlags::empty(), None).expect("mounted");
    refused(node.publish("v", "pod", &[("", &local)]), Code::FailedPrecondition, "tmpfs");
    refused(node.unpublish("v", "pod"), Code::FailedPrecondition, "tmpfs");
    assert!(Command::new("umount").arg(&target).status().expect("it starts").success());
    node.publish("v", "pod", &[("", &local)]).expect("published");
    refused(node.publish("w", "pod", &[("", &local)]), Code::FailedPrecondition, "\"v\" is at the target");
    refused(node.unpublish("w", "pod"), Code::FailedPrecondition, "\"v\" is at the target");
    node.unpublish("v", "pod").expect("unpublished");
    node.assert_clean();

    // A store that takes requests and never answers.
    let silent = Web::new(None, true).url;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| node.publish("slow", "one", &[("", &silent)]));
        wait_until("the first call has begun", || node.processes().iter().any(|(_, line)| line.contains("--keeper")));
        refused(node.publish("slow", "two", &[("", &silent)]), Code::Aborted, "try again");
        refused(node.unpublish("slow", "one"), Code::Aborted, "try again");
        let other = node.publish("other", "three", &[("", &local)]);
        other.expect("another volume does not wait");
        assert_eq!(first.join().expect("no panic").expect_err("no answer").code(), Code::Unavailable);
    });
    node.unpublish("other", "three").expect("unpublished");
    node.assert_clean();
}

#[test]
fn random_histories_leave_nothing_behind() {
    needs_mounts!();
    let mut node = Node::new(&[]);
    let local = data(&node);
    for seed in 0..20 {
        let mut dice = body(seed + 100, 64).into_iter().map(usize::from);
        let mut roll = |sides: usize| dice.next().expect("enough") % sides;
        let mut published: BTreeMap<String, String> = BTreeMap::new();
        for _ in 0..6 {
            let (id, pod) = (format!("v{}", roll(2)), format!("p{}", roll(3)));
            match roll(6) {
                0..=2 => match (node.publish(&id, &pod, &[("", &local)]), published.get(&pod)) {
                    (Ok(()), Some(before)) => assert_eq!(*before, id),
                    (Ok(()), None) => drop(published.insert(pod, id)),
                    (Err(e), Some(before)) if *before != id => assert_eq!(e.code(), Code::FailedPrecondition),
                    // The driver mends the volume at this moment.
                    (Err(e), _) => assert_eq!(e.code(), Code::Aborted, "{e:?}; {}", node.log()),
                },
                3 => match node.unpublish(&id, &pod) {
                    Ok(()) => drop(published.remove(&pod)),
                    Err(e) => assert!(matches!(e.code(), Code::Aborted | Code::FailedPrecondition), "{e:?}"),
                },
                4 => drop(node.kill("--keeper")),
                _ => {
                    node.kill_driver();
                    node.start();
                }
            }
            for pod in published.keys() {
                assert_eq!(node.read(pod, "b").len(), FILE, "seed {seed}");
            }
        }
        for (pod, id) in published {
            wait_until("unpublished", || node.unpublish(&id, &pod).is_ok());
        }
        wait_until("no volume is left", || std::fs::read_dir(node.at("state/volumes")).expect("there").count() == 0);
        node.assert_clean();
    }
}
