//! Data from connections: control messages, errors, tickets, and the messages of a chunk's stream.

use std::sync::Arc;

use arrow_flight::FlightData;
use forebay_core::Error;
use forebay_data::{DType, Field, Kind, Schema};
use forebay_proto as proto;
use prost::Message;

/// Every control message, by the tag in byte 0.
pub(crate) fn messages(data: &[u8]) {
    let Some((&tag, bytes)) = data.split_first() else { return };
    fn read<M: Message + Default + PartialEq>(bytes: &[u8]) {
        if let Ok(message) = M::decode(bytes) {
            let again = M::decode(&*message.encode_to_vec()).expect("it wrote itself");
            // NaN differs from itself; nothing else may.
            let _ = again == message;
        }
    }
    match tag % 8 {
        0 => read::<proto::OpenJobRequest>(bytes),
        1 => read::<proto::OpenJobEvent>(bytes),
        2 => read::<proto::JobDefinition>(bytes),
        3 => read::<proto::WorkerMessage>(bytes),
        4 => read::<proto::WorkerEvent>(bytes),
        5 => read::<proto::ConsumerMessage>(bytes),
        6 => read::<proto::ConsumerEvent>(bytes),
        _ => {
            let details = bytes.to_vec().into();
            let status = tonic::Status::with_details(tonic::Code::from(i32::from(tag >> 3)), "text", details);
            let error: Error = proto::to_error(&status, "host:1");
            let _ = (proto::to_status(&error), error.to_string());
        }
    }
}

/// Tickets, addresses, versions, the messages of readers about loans, and the headers of the answers.
pub(crate) fn small(data: &[u8]) {
    if let Ok(ticket) = proto::Ticket::from_bytes(data) {
        assert_eq!(proto::Ticket::from_bytes(&ticket.to_bytes()), Ok(ticket));
    }
    if let Some(head) = data.first_chunk().and_then(|head| proto::FrameHead::from_bytes(head).ok()) {
        assert_eq!(proto::FrameHead::from_bytes(&head.to_bytes()), Ok(head));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(request) = serde_json::from_str::<proto::Request>(text) {
            assert_eq!(
                request.to_bytes().get(4..).map(serde_json::from_slice::<proto::Request>).and_then(Result::ok),
                Some(request)
            );
        }
        if let Ok(address) = text.parse::<proto::Address>() {
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        let _ = proto::check_version("this", text, None);
    }
    if let Ok(build) = proto::Build::decode(data) {
        let _ = proto::check_version("this", proto::UNNUMBERED_VERSION, Some(&build));
        if let Ok(bits) = proto::Build::bits(Some(build)) {
            assert_eq!(proto::Build::bits(Some(proto::Build::own(&bits))), Ok(bits));
        }
    }
    if let Some(said) = data.first_chunk().and_then(proto::Return::from_bytes) {
        assert_eq!(proto::Return::from_bytes(&said.to_bytes()), Some(said));
    }
}

/// Splits off a `u16` length and that many bytes.
fn part<'a>(data: &mut &'a [u8]) -> &'a [u8] {
    let (len, rest) = data.split_first_chunk::<2>().map_or((0, *data), |(n, rest)| (u16::from_le_bytes(*n), rest));
    let (part, rest) = rest.split_at(rest.len().min(usize::from(len)));
    *data = rest;
    part
}

/// A chunk as a worker sends it: a schema's message, which is skipped, then head, header and body of messages, with
/// right checksums.
pub(crate) fn stream(mut data: &[u8]) {
    let data = &mut data;
    part(data);
    let mut messages = Vec::new();
    while !data.is_empty() && messages.len() < 3 {
        let (mut head, header, body) = (part(data).to_vec(), part(data).to_vec(), part(data).to_vec());
        if head.len() >= 13 {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&header), &body);
            let crc = crc32c::crc32c_append(crc, &head[13..]);
            head[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        let message = FlightData::new().with_data_header(header).with_data_body(body).with_app_metadata(head);
        let _ = proto::ChunkHead::open(&message);
        messages.push(message);
    }
    for with_ids in [false, true] {
        let _ = forebay_client::decode_messages(messages.clone(), &schema(), with_ids);
    }
}

/// The schema of the chunks that [`stream`] reads: a column of each kind.
fn schema() -> Arc<Schema> {
    let fields = vec![
        Field::new("n", Kind::scalar(DType::Int64)),
        Field { nullable: true, ..Field::new("x", Kind::scalar(DType::Float32)) },
        Field::new("raw", Kind::Bytes),
        Field { nullable: true, ..Field::new("text", Kind::Utf8) },
        Field::new("image", Kind::fixed(DType::Uint8, &[2, 3])),
        Field::new("ragged", Kind::Tensor { dtype: DType::Float32, shape: vec![None] }),
    ];
    Arc::new(Schema::new(fields).expect("a schema"))
}
