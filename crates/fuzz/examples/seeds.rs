//! Writes the seeds of `fuzz/corpus` that only Forebay itself can write. Those of other libraries: `fuzz/seeds.py`.

use std::path::Path;

use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use forebay_core::{Epoch, SampleId, Seed};
use forebay_data::{Chunk, RowId};
use forebay_exec::extent;
use forebay_io::{Draft, Features, infer};
use forebay_plan::{EpochPlan, Graph, Stages};
use forebay_proto::{ChunkHead, Lent, LentColumn};
use prost::Message;
use serde_json::json;

fn keep(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), bytes).expect("written");
}

fn golden(name: &str) -> Vec<String> {
    vec![format!("{}/../io/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))]
}

fn indexes() {
    let drafts = [
        ("tar", Draft::Tar { paths: golden("ustar.tar") }),
        ("tfrecord", Draft::Tfrecord { paths: golden("tensorflow.tfrecord"), features: Features::Raw, verify: true }),
        ("parquet", Draft::Parquet { paths: golden("pyarrow.parquet"), columns: None }),
        ("files", Draft::Files { paths: golden("*.tar") }),
    ];
    for (name, draft) in drafts {
        let source = infer(draft).expect("a source");
        let bytes = forebay_io::index(&source, true, None, 1, &|_, _| Ok(())).expect("an index").to_bytes();
        keep("index", name, &bytes[5..bytes.len() - 32]);
    }
}

fn graphs() {
    let col = |name: &str| json!({"expr": "col", "name": name});
    let int = |value: i64| json!({"expr": "int", "value": value});
    let binary = |op: &str, a, b| json!({"expr": "binary", "op": op, "left": a, "right": b});
    let column = |name: &str, value| json!({"op": "with_column", "column": name, "value": value});
    let cast = |arg, dtype: &str| json!({"expr": "cast", "arg": arg, "dtype": dtype});
    let pipelines = [
        (
            "order",
            json!([{"op": "shuffle"}, {"op": "repeat", "count": 2}, {"op": "take", "count": 50},
            {"op": "skip", "count": 3}, {"op": "shard", "count": 2, "index": 1}, {"op": "batch", "size": 7, "drop_remainder": true}]),
        ),
        (
            "filter",
            json!([{"op": "filter_expr", "predicate": binary("lt", binary("mod", col("id"), int(5)), int(3))},
            {"op": "take", "count": 20}, {"op": "rename", "columns": [["id", "n"]]}, {"op": "select", "columns": ["n"]}, {"op": "prefetch", "count": 2}]),
        ),
        (
            "columns",
            json!([column("x", cast(col("id"), "float32")), column("y", binary("true_div", col("x"), int(0))),
            column("h", json!({"expr": "hash_mod", "arg": col("id"), "buckets": 10})),
            column("s", json!({"expr": "stack", "args": [col("x"), col("y")]})),
            column("w", json!({"expr": "where", "cond": binary("gt", col("id"), int(4)), "yes": col("x"), "no": {"expr": "float", "value": 0.5}})),
            column("c", json!({"expr": "clip", "arg": col("id"), "low": 1.0, "high": 7.0})),
            {"op": "cast", "columns": [["id", "int8"]]}, {"op": "drop", "columns": ["y"]}, {"op": "batch", "size": 4, "drop_remainder": false}]),
        ),
    ];
    let source = json!({"source": "range", "start": 0, "stop": 100, "step": 1});
    for (name, ops) in pipelines {
        let nodes: Vec<_> = ops.as_array().expect("ops").iter().map(|op| json!({"op": op})).collect();
        let text = json!({"version": 1, "source": source, "nodes": nodes}).to_string();
        let graph = Graph::from_json(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        keep("graph", name, graph.to_json().as_bytes());
        let stages = Stages::new(&graph).expect("a pipeline");
        let index = forebay_io::index(graph.source(), true, None, 1, &|_, _| Ok(())).expect("an index");
        let extent = extent(graph.source(), Some(&index));
        let plan = EpochPlan::new(&stages, extent, Seed(1), 2, None).expect("a plan");
        let [extent, sizing] =
            [serde_json::to_string(&extent), serde_json::to_string(&plan.sizing())].map(|t| t.expect("json"));
        keep("job", name, format!("{}\n{extent}\n{sizing}\n2", graph.to_json()).as_bytes());
        let record = json!({"id": 1, "name": name, "dataset": "d", "graph": graph.to_json(), "seed": 3, "epochs": 2,
            "consumers": 2, "extent": extent, "sizing": sizing, "index": "i"});
        keep("ledger", name, record.to_string().as_bytes());
    }
    let image = json!({"version": 1, "source": {"source": "tar", "paths": ["/a/{0..3}.tar"], "extensions": ["jpg", "cls"]},
        "nodes": [{"op": {"op": "decode_image", "column": "jpg", "mode": "RGB"}},
            {"op": {"op": "random_resized_crop", "column": "jpg", "height": 8, "width": 8, "scale": [0.1, 1.0], "ratio": [0.7, 1.3], "antialias": true}},
            {"op": {"op": "normalize", "column": "jpg", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "layout": "CHW"}}]});
    keep("graph", "image", Graph::from_json(&image.to_string()).expect("a pipeline").to_json().as_bytes());
}

fn framed(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&(part.len() as u16).to_le_bytes()[..], part].concat()).collect()
}

fn streams() {
    let schema = forebay_fuzz::schema();
    let ids: std::sync::Arc<[RowId]> =
        (0..2).map(|row| RowId { sample: SampleId::new(1, row), epoch: Epoch(0) }).collect();
    let columns = schema.fields().iter().map(|f| arrow_columns(&f.kind)).collect();
    let chunk = Chunk::new(schema, columns, ids).expect("a chunk");
    for (name, with_ids) in [("plain", false), ("ids", true)] {
        let batch = chunk.to_record_batch(with_ids).expect("a batch");
        let options = IpcWriteOptions::default();
        let first: FlightData = SchemaAsIpc::new(&batch.schema(), &options).into();
        let (_, data) = IpcDataGenerator::default()
            .encode(&batch, &mut DictionaryTracker::new(false), &options, &mut IpcWriteContext::default())
            .expect("encodes");
        let message = FlightData::new().with_data_header(data.ipc_message).with_data_body(data.arrow_data);
        let lent = with_ids.then(|| Lent { loan: 1, columns: vec![LentColumn { column: 0, offset: 0, len: 16 }] });
        let message = ChunkHead { index: 0, more: false, lent }.seal(message);
        let parts = [&first.data_header, &message.app_metadata, &message.data_header, &message.data_body];
        keep("stream", name, &framed(&parts.map(|p| &p[..])));
    }
}

fn arrow_columns(kind: &forebay_data::Kind) -> arrow_array::ArrayRef {
    arrow_array::new_null_array(&kind.arrow(), 2)
}

fn messages() {
    use forebay_proto as p;
    let keep = |tag: u8, name: &str, bytes: Vec<u8>| keep("messages", name, &[&[tag], &bytes[..]].concat());
    let open = p::OpenJobRequest {
        version: "0.1.0".into(),
        name: "job".into(),
        graph: "{}".into(),
        seed: 1,
        epochs: 2,
        consumers: 3,
    };
    keep(0, "open", open.encode_to_vec());
    let definition = p::JobDefinition {
        job: 1,
        name: "job".into(),
        graph: "{}".into(),
        seed: 1,
        epochs: 1,
        consumers: 1,
        extent: "{}".into(),
        sizing: "{}".into(),
        index: "ab".into(),
    };
    keep(2, "definition", definition.encode_to_vec());
    keep(7, "error", forebay_core::Error::data("bad").with("file", "f").to_json().into_bytes());
    let ticket = p::Ticket { job: 1, epoch: 2, consumer: 3, ordinal: 4, token: 5, from_chunk: 6 };
    super_keep("ticket", &ticket.to_bytes());
    super_keep("address", b"forebay://[::1]:7070");
    super_keep("loan", &p::Return::Loan(7).to_bytes());
    super_keep("stream", &p::Return::Stream { stream: 3, last: 9 }.to_bytes());
}

fn super_keep(name: &str, bytes: &[u8]) {
    keep("small", name, bytes);
}

fn states() {
    keep("state", "start", br#"{"epoch":0,"split":0,"chunk":0,"rows":0}"#);
    keep("state", "middle", br#"{"epoch":1,"split":1,"chunk":1,"rows":3,"counters":[3,7]}"#);
    keep("state", "packed", br#"{"epoch":0,"split":0,"chunk":0,"rows":1,"unpacked":{"row":1,"token":2}}"#);
}

fn main() {
    indexes();
    graphs();
    streams();
    messages();
    states();
}
