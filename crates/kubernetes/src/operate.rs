//! `forebay-operator operate`: the elected leader runs the controllers; every replica serves the admission webhook.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use forebay_core::{Error, Result};
use kube::{Client, Config};

use crate::caches;
use crate::cluster::events::Events;
use crate::cluster::leader::Election;
use crate::cluster::metrics::METRICS;
use crate::cluster::metrics_server;
use crate::cluster::objects::ApiClient;
use crate::engines::EngineSettings;
use crate::services;
use crate::services::manifests::{BUDGETS, ClusterInfo, OLD_BUDGETS};
use crate::webhook::{Admission, Capabilities, Names, Webhook, WebhookAddress};

/// Timeout for the API server's version when the operator starts.
const VERSION_MAX: Duration = Duration::from_secs(10);

/// The arguments of `forebay-operator operate`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Namespace of the operator's Lease and Secret [default: the one of this pod]
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// Name of this process in the election, which no other replica has [default: the host's name and the process id]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// Address at which the webhook listens
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:9443")]
    listen: SocketAddr,
    /// Address of the metrics for Prometheus: http://HOST:PORT/metrics, without TLS [default: no metrics]
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<SocketAddr>,
    /// Service at which the API server reaches the webhook
    #[arg(long, value_name = "NAME", default_value = "forebay-operator")]
    service: String,
    /// URL at which the API server reaches the webhook, instead of a Service: https://host:port
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Image of this program, for pods of clusters without scheduling gates (before 1.27)
    #[arg(
        long,
        env = "FOREBAY_OPERATOR_IMAGE",
        value_name = "IMAGE",
        default_value = "registry.example/forebay-operator:0.1"
    )]
    image: String,
    /// Image of Forebay, for the pods of cache nodes: that of the CSI driver
    #[arg(long, env = "FOREBAY_IMAGE", value_name = "IMAGE", default_value = "registry.example/forebay:0.1")]
    cache_image: String,
    /// Seconds after which another replica acts when this one died
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=600))]
    lease: u64,
}

/// Runs the operator until `stop` completes.
///
/// # Errors
/// Invalid without a kubeconfig or service account; Unavailable when this replica loses its Lease, or when the webhook
/// cannot listen.
pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> Result<()> {
    let mut stop = std::pin::pin!(stop);
    let config = Config::infer().await.map_err(|e| {
        let hint = "run this in a pod with a service account, or set KUBECONFIG";
        Error::invalid(format!("no Kubernetes cluster is known here: {e}")).hint(hint)
    })?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|e| Error::invalid(format!("no connection to Kubernetes: {e}")))?;
    let api = ApiClient { client: client.clone() };
    let capabilities = capabilities(&client).await?;
    let identity = arguments.identity.clone().unwrap_or_else(own_name);
    if let Some(at) = arguments.metrics {
        metrics_server::start(at).await?;
    }
    let webhook = webhook(&arguments, &api, capabilities, &namespace).await?;
    let election = Election { api: api.clone(), namespace, identity, duration: Duration::from_secs(arguments.lease) };
    tokio::select! {
        () = election.acquire() => {}
        () = webhook.maintain(false) => {}
        () = &mut stop => return Ok(()),
    }
    tracing::info!(identity = election.identity, gates = capabilities.gates, "operating");
    METRICS.leading();
    let events = |action| Events::new(client.clone(), &election.identity, action);
    let budgets = if capabilities.budgets { BUDGETS } else { OLD_BUDGETS };
    let settings =
        EngineSettings { image: arguments.cache_image.clone(), operator_namespace: election.namespace.clone() };
    let cluster = ClusterInfo { budgets, operator: election.namespace.clone() };
    tokio::select! {
        lost = election.keep() => lost,
        () = webhook.maintain(true) => Ok(()),
        () = caches::run(api.clone(), events("Cache"), settings) => Ok(()),
        () = services::run(api, events("Service"), cluster) => Ok(()),
        () = stop => {
            election.release().await;
            Ok(())
        }
    }
}

async fn webhook(
    arguments: &Arguments,
    api: &ApiClient,
    capabilities: Capabilities,
    namespace: &str,
) -> Result<Webhook> {
    let (address, name) = match &arguments.url {
        Some(url) => {
            let uri: http::Uri = url.parse().map_err(|e| Error::invalid(format!("--url {url} is no URL: {e}")))?;
            let host = uri.host().ok_or_else(|| Error::invalid(format!("--url {url} names no host")))?;
            (WebhookAddress::Url(url.trim_end_matches('/').to_owned()), host.to_owned())
        }
        None => {
            let name = arguments.service.clone();
            let host = format!("{name}.{namespace}.svc");
            (WebhookAddress::Service { namespace: namespace.to_owned(), name }, host)
        }
    };
    let names = Names { namespace: namespace.to_owned(), names: vec![name] };
    let admission = Admission { api: api.clone(), capabilities, image: arguments.image.clone() };
    Webhook::start(admission, arguments.listen, names, address).await
}

async fn capabilities(client: &Client) -> Result<Capabilities> {
    let silent = |why: String| Error::unavailable(format!("the API server does not tell its version: {why}"));
    let version = tokio::time::timeout(VERSION_MAX, client.apiserver_version()).await;
    let version = version.map_err(|_| silent("no answer".to_owned()))?;
    let version = version.map_err(|e| silent(forebay_proto::innermost(&e)))?;
    tracing::info!(version = version.git_version, "the API server answers");
    Ok(Capabilities::of(&version.major, &version.minor))
}

fn own_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}
