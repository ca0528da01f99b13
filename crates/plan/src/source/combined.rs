//! Datasets that are read as one: which datasets may be parts, the columns of their rows, and their description.
//!
//! Invariant: a part is counted, except in a mix. The ops of a counted part decide the order of its rows, or change each
//! row by itself, so the epoch plan can find any of its rows. A mix with a part that is not counted is streamed: its parts
//! are pipelines of their own, whose rows are put together as they come.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};

use super::windows;
use super::{Combined, Combining, Source, SourcePart, Stop};
use crate::graph::{Graph, Node};
use crate::ops::{self, Class, Op};

/// The most datasets that are read as one, with those inside of others.
const PARTS_MAX: usize = 1000;
/// How deep combinations may lie in each other.
const DEPTH_MAX: usize = 8;
/// The most bytes of the name of a part.
const NAME_BYTES_MAX: usize = 1 << 10;

impl Combined {
    /// Returns the name of its Python function.
    pub fn name(&self) -> &'static str {
        match self.how {
            Combining::Mix { .. } => "mix",
            Combining::Concatenate => "concatenate",
            Combining::Interleave { .. } => "interleave",
            Combining::Window { .. } => "window",
            Combining::Zip { .. } => "zip",
        }
    }

    /// Returns whether it is a mix of which a part's rows are known only after they were computed: rows of all parts are
    /// then read in their order, and put together at the consumer.
    pub fn is_streamed(&self) -> bool {
        let is_mix = matches!(self.how, Combining::Mix { .. });
        is_mix && self.parts.iter().any(|part| !is_counted(&part.graph))
    }

    /// Returns whether a row of it is made of several rows, which are found by its number.
    pub fn is_by_number(&self) -> bool {
        matches!(self.how, Combining::Zip { .. } | Combining::Window { .. })
    }

    /// Returns whether its rows, or those of one of its parts, are windows.
    pub(crate) fn has_windows(&self) -> bool {
        let inside = |part: &SourcePart| matches!(part.graph.source(), Source::Combined(inner) if inner.has_windows());
        matches!(self.how, Combining::Window { .. }) || self.parts.iter().any(inside)
    }

    /// Returns whether its rows never end.
    pub fn is_endless(&self) -> bool {
        matches!(self.how, Combining::Mix { stop: Stop::Never, .. })
    }

    /// Checks its arguments and its parts.
    ///
    /// # Errors
    /// Invalid, with the part.
    pub(crate) fn check(&self) -> Result<()> {
        let (name, count) = (self.name(), self.parts.len());
        match self.how {
            Combining::Window { size, stride, .. } => windows::check(count, size, stride)?,
            Combining::Interleave { cycle, block } if cycle == 0 || block == 0 => {
                return Err(Error::invalid("interleave: a cycle and a block have 1 or more").hint("leave them out"));
            }
            _ if count < 2 => {
                return Err(Error::invalid(format!("{name}: {count} datasets")).hint("give at least two"));
            }
            _ => {}
        }
        let leaves = self.leaves();
        if leaves > PARTS_MAX {
            return Err(Error::invalid(format!("{name}: {leaves} datasets"))
                .hint(format!("give at most {PARTS_MAX}; files of one format can be one source")));
        }
        if self.depth() > DEPTH_MAX {
            return Err(Error::invalid(format!("{name}: more than {DEPTH_MAX} combinations lie in each other"))
                .hint("combine all datasets at once"));
        }
        let mut names = BTreeSet::new();
        for part in &self.parts {
            if part.name.is_empty() || part.name.len() > NAME_BYTES_MAX {
                return Err(Error::invalid(format!("{name}: the name of a dataset has {} bytes", part.name.len()))
                    .hint(format!("use 1 to {NAME_BYTES_MAX}")));
            }
            if !names.insert(&part.name) {
                return Err(Error::invalid(format!("{name}: two datasets have the name {:?}", part.name)));
            }
            self.check_part(&part.graph).map_err(|e| e.with("part", &part.name))?;
        }
        self.check_mix()
    }

    /// Checks that the rows of a part are counted, and that its ops need nothing but single rows.
    fn check_part(&self, graph: &Graph) -> Result<()> {
        let name = self.name();
        let may_stream = matches!(self.how, Combining::Mix { .. });
        if matches!(graph.source(), Source::Combined(inner) if inner.is_streamed()) {
            return Err(Error::invalid(format!(
                "{name}: a mix of datasets whose rows are not counted is a part, and cannot be read as one again"
            ))
            .hint("mix all datasets at once, or save the rows of the inner mix once (save)"));
        }
        if !may_stream && !graph.source().can_index() {
            return Err(Error::invalid(format!("{name}: {} cannot be counted", graph.source().name()))
                .hint("use from_map_dataset, or write the samples to files first"));
        }
        if graph.source().is_endless() {
            return Err(Error::invalid(format!(
                "{name}: a mix without end is a part, which would never be read whole"
            ))
            .hint("give that mix stop= or rows=, or mix all datasets at once"));
        }
        let refuse = |node: &Node, hint: String| {
            Err(node.blame(Error::invalid(format!("{} cannot be part of {name}", node.op.name())).hint(hint)))
        };
        for node in graph.nodes() {
            let op = node.op.name();
            let is_known = match node.op.class() {
                Class::Order | Class::RowWise => true,
                Class::Filter | Class::Expand | Class::Global => may_stream,
                Class::Group | Class::Hint => false,
            };
            if matches!(node.op, Op::Repeat(ops::Repeat { count: None })) {
                return refuse(
                    node,
                    "give repeat a count, or leave it out: rows= of mix begins datasets again".to_owned(),
                );
            }
            let is_numbered = matches!(node.op, Op::Enumerate(_));
            if !is_known || is_numbered || node.op.is_cache_point() {
                let is_late = self.is_streamed() && (is_numbered || node.op.is_cache_point());
                let hint = if matches!(node.op.class(), Class::Filter | Class::Expand | Class::Global) {
                    let choose = match node.op.class() {
                        Class::Filter => ", or choose rows by number (select_rows)",
                        _ => "",
                    };
                    format!(
                        "{name} has to know the number of rows of each dataset: save the rows behind {op} once (save) \
                         and read these files{choose}"
                    )
                } else if is_late {
                    format!("leave {op} out, or save the rows once (save) and mix the saved files")
                } else {
                    format!("put {op} behind {name}")
                };
                return refuse(node, hint);
            }
            // These rows are found by their number, the same in each epoch.
            if self.is_by_number() && matches!(node.op, Op::Shuffle(_) | Op::Repeat(_)) {
                let why = match self.how {
                    Combining::Zip { .. } => "the rows of all datasets stay together",
                    _ => "it is of whole windows",
                };
                return refuse(node, format!("put {op} behind {name}, where {why}"));
            }
        }
        match (&self.how, graph.source()) {
            (_, Source::Combined(inner)) if self.is_by_number() => inner.check_in(name),
            _ => Ok(()),
        }
    }

    /// Checks that its rows come in the same order in each epoch.
    fn check_in(&self, outer: &str) -> Result<()> {
        if matches!(self.how, Combining::Mix { .. }) {
            return Err(Error::invalid(format!("mix cannot be part of {outer}: its order differs between epochs"))
                .hint(format!("{outer} first, and mix what {outer} returns")));
        }
        let zip = Combined { how: Combining::Zip { strict: false }, ..self.clone() };
        self.parts.iter().try_for_each(|part| zip.check_part(&part.graph).map_err(|e| e.with("part", &part.name)))
    }

    /// Returns whether its rows come in the same order in each epoch.
    pub(crate) fn is_steady(&self) -> bool {
        let is_steady = |part: &SourcePart| {
            let inner = match part.graph.source() {
                Source::Combined(inner) => inner.is_steady(),
                _ => true,
            };
            inner && !part.graph.nodes().iter().any(|node| matches!(node.op, Op::Shuffle(_)))
        };
        !matches!(self.how, Combining::Mix { .. }) && self.parts.iter().all(is_steady)
    }

    /// Returns the number of datasets, with those inside of others.
    pub(crate) fn leaves(&self) -> usize {
        let of = |part: &SourcePart| match part.graph.source() {
            Source::Combined(inner) => inner.leaves(),
            _ => 1,
        };
        self.parts.iter().map(of).sum()
    }

    fn depth(&self) -> usize {
        let of = |part: &SourcePart| match part.graph.source() {
            Source::Combined(inner) => inner.depth(),
            _ => 0,
        };
        1 + self.parts.iter().map(of).max().unwrap_or(0)
    }

    /// Returns the columns of its rows.
    ///
    /// # Errors
    /// Invalid when parts have other columns than the first, or, of a zip, columns of the same name.
    pub(super) fn fields(&self) -> Result<Vec<Field>> {
        let mut fields = match self.how {
            Combining::Zip { .. } => self.side_by_side()?,
            Combining::Window { size, drop_remainder, .. } => self.in_windows(size, drop_remainder)?,
            _ => self.same_columns()?,
        };
        if let Some(column) = &self.column {
            if let Some(field) = fields.iter().find(|field| field.name == *column) {
                let (name, column) = (self.name(), &field.name);
                return Err(Error::invalid(format!("{name}: source={column:?} is a column of the datasets"))
                    .hint("use another name"));
            }
            fields.push(Field::new(column, Kind::Utf8));
        }
        Ok(fields)
    }

    fn same_columns(&self) -> Result<Vec<Field>> {
        let Some((first, others)) = self.parts.split_first() else { return Ok(Vec::new()) };
        let mut fields = first.graph.schema().fields().to_vec();
        for part in others {
            let schema = part.graph.schema();
            let lacks = |a: &SourcePart, b: &SourcePart| {
                let mut names = a.graph.schema().fields().iter().map(|field| &field.name);
                names.find(|name| b.graph.schema().position(name).is_none()).cloned()
            };
            for (with, without) in [(first, part), (part, first)] {
                if let Some(column) = lacks(with, without) {
                    return Err(Error::invalid(format!(
                        "{}: {:?} has a column {column:?}, and {:?} has none",
                        self.name(),
                        with.name,
                        without.name
                    ))
                    .hint("select, drop or rename columns of the datasets, so that all have the same"));
                }
            }
            for field in &mut fields {
                let other = schema.field(&field.name)?;
                if other.kind != field.kind {
                    return Err(Error::invalid(format!(
                        "{}: column {:?} is {} in {:?} and {} in {:?}",
                        self.name(),
                        field.name,
                        field.kind,
                        first.name,
                        other.kind,
                        part.name
                    ))
                    .hint("cast it in one of them"));
                }
                field.nullable |= other.nullable;
            }
        }
        Ok(fields)
    }

    fn side_by_side(&self) -> Result<Vec<Field>> {
        let mut fields: Vec<Field> = Vec::new();
        for part in &self.parts {
            for field in part.graph.schema().fields() {
                if fields.iter().any(|known| known.name == field.name) {
                    return Err(Error::invalid(format!("zip: two datasets have a column {:?}", field.name))
                        .with("part", &part.name)
                        .hint("rename or drop it in one of them"));
                }
                fields.push(field.clone());
            }
        }
        Ok(fields)
    }

    /// Returns the columns of windows.
    fn in_windows(&self, size: u64, is_full: bool) -> Result<Vec<Field>> {
        let fields = self.parts.iter().flat_map(|part| part.graph.schema().fields());
        fields.map(|field| windows::field(field, size, is_full)).collect()
    }

    /// Reads only these of its columns, and at least one of each part.
    pub(super) fn read_only(&mut self, needed: &BTreeSet<String>) {
        self.column = self.column.take().filter(|column| needed.contains(column));
        let is_zip = self.is_by_number();
        // Parts of a mix read the same columns, also where no column is needed.
        let first = self.parts.first().and_then(|part| smallest(part.graph.schema()));
        for part in &mut self.parts {
            let schema = part.graph.schema();
            let mut columns: Vec<_> = schema.fields().iter().map(|field| field.name.clone()).collect();
            let all = columns.len();
            columns.retain(|name| needed.contains(name));
            if columns.is_empty() {
                columns.extend(if is_zip { smallest(schema) } else { first.clone() });
            }
            if columns.len() == all {
                continue;
            }
            let select = Node::new(Op::Select(ops::Select { columns }));
            if let Ok(graph) = part.graph.then(select) {
                part.graph = Arc::new(graph);
            }
        }
    }

    /// Replaces the graph of each part.
    pub(super) fn each_graph(&mut self, of: impl Fn(&Graph) -> Graph) {
        self.parts.iter_mut().for_each(|part| part.graph = Arc::new(of(&part.graph)));
    }

    /// Leaves out what changes no row: lines, labels, and names of parts that no column has.
    pub(super) fn be_named(&mut self) {
        self.each_graph(Graph::canonical);
        if self.column.is_none() {
            self.parts.iter_mut().for_each(|part| part.name.clear());
        }
    }

    /// Returns its parts and arguments, for people.
    pub(super) fn describe(&self) -> String {
        let count = self.parts.len();
        let names = match count {
            0..=8 => self.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", "),
            _ => format!("{count} datasets"),
        };
        match &self.how {
            Combining::Mix { stop, changes, per_batch, .. } => {
                let batch = per_batch.map_or(String::new(), |rows| format!(", per_batch={rows}"));
                let changes = changes
                    .as_ref()
                    .map_or(String::new(), |changes| format!(", weights change at {} rows", changes.points.len()));
                format!("{names}, {}{changes}{batch}", stop.describe())
            }
            Combining::Concatenate => names,
            Combining::Interleave { cycle, block } => format!("{names}, cycle_length={cycle}, block_length={block}"),
            Combining::Window { size, stride, drop_remainder } => {
                let drop = if *drop_remainder { ", drop_remainder=True" } else { "" };
                format!("{size}, stride={stride}{drop}")
            }
            Combining::Zip { strict } => format!("{names}, strict={}", if *strict { "True" } else { "False" }),
        }
    }
}

/// Returns whether the epoch plan finds any row of a part.
fn is_counted(graph: &Graph) -> bool {
    let is_counted = |node: &Arc<Node>| matches!(node.op.class(), Class::Order | Class::RowWise);
    graph.source().can_index() && graph.nodes().iter().all(is_counted)
}

impl Stop {
    fn describe(self) -> String {
        match self {
            Stop::First => "stop=\"first\"".to_owned(),
            Stop::All => "stop=\"all\"".to_owned(),
            Stop::Once => "stop=\"once\"".to_owned(),
            Stop::Rows(rows) => format!("rows={rows}"),
            Stop::Never => "stop=None".to_owned(),
        }
    }
}

/// Returns the column of the fewest bytes.
fn smallest(schema: &Schema) -> Option<String> {
    let bytes = |field: &&Field| field.kind.row_bytes().unwrap_or(usize::MAX);
    schema.fields().iter().min_by_key(bytes).map(|field| field.name.clone())
}
