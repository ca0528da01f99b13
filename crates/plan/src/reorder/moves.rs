//! The ops that an order moves, with reasons, as lines for `explain`.

use super::{Move, RunOrder};
use crate::chosen_order::Reorder;
use crate::graph::{Graph, Node};
use crate::ops::Class;

/// Returns the fewest moves that explain an order: all ops except a longest run that is still in the order as written.
/// `exact` returns whether an op may run before an earlier one without changing a byte.
pub(super) fn moves(places: &[usize], exact: impl Fn(usize, usize) -> bool) -> Vec<Move> {
    let stays = longest_rising(places);
    let mut moves: Vec<Move> = Vec::new();
    for (at, &op) in places.iter().enumerate().filter(|(at, _)| !stays[*at]) {
        let before = places[..at].iter().copied().filter(|&other| other > op);
        let behind = places[at + 1..].iter().copied().filter(|&other| other < op);
        let (mut later, mut sooner): (Vec<_>, Vec<_>) = (before.collect(), behind.collect());
        let earlier = sooner.len() >= later.len();
        let is_exact = sooner.iter().all(|&other| exact(op, other)) && later.iter().all(|&other| exact(other, op));
        let past = if earlier { &mut sooner } else { &mut later };
        past.sort_unstable();
        moves.push(Move { op, earlier, past: std::mem::take(past), is_exact });
    }
    moves
}

/// Marks a longest rising subsequence of a permutation.
fn longest_rising(places: &[usize]) -> Vec<bool> {
    let mut best: Vec<(usize, Option<usize>)> = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        let longest = (0..at).filter(|&before| places[before] < *place).max_by_key(|&before| best[before].0);
        best.push((longest.map_or(1, |before| best[before].0 + 1), longest));
    }
    let mut stays = vec![false; places.len()];
    let mut at = (0..places.len()).max_by_key(|&at| best[at].0);
    while let Some(place) = at {
        stays[place] = true;
        at = best[place].1;
    }
    stays
}

impl RunOrder {
    /// Returns lines that explain how the running order differs from the order as written; none if it does not.
    pub(crate) fn lines(&self, graph: &Graph) -> Vec<String> {
        if self.moves.is_empty() {
            return Vec::new();
        }
        let what = match (graph.reorder(), self.is_exact) {
            (Reorder::Relaxed, false) => "other bytes, drawn from the same distribution",
            _ => "the same bytes",
        };
        let gain = match self.is_measured {
            true => format!("measured to be {:.2} times as fast", self.gain),
            false => format!("estimated to be {:.1} times less work", self.gain),
        };
        let head = format!("reordered ({}: {what}), {gain}", graph.reorder());
        std::iter::once(head).chain(self.moves.iter().map(|m| line(graph, m))).collect()
    }
}

fn line(graph: &Graph, moved: &Move) -> String {
    let nodes = graph.nodes();
    let op = &nodes[moved.op];
    let past: Vec<_> = moved.past.iter().map(|&place| nodes[place].op.name()).collect();
    let which = if moved.earlier { "before" } else { "after" };
    let site = op.site.as_ref().map_or(String::new(), |site| format!(" ({}:{})", file(&site.file), site.line));
    let others: Vec<_> = moved.past.iter().map(|&place| &*nodes[place]).collect();
    let bytes = if moved.is_exact { "" } else { "; relaxed" };
    format!("  {}{site} runs {which} {}: {}{bytes}", op.op.name(), past.join(", "), reason(op, &others, moved.earlier))
}

/// Returns the name of a file without its folders.
fn file(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns the reason why an op is cheaper at its new place.
fn reason(node: &Node, past: &[&Node], earlier: bool) -> &'static str {
    let filters = |node: &Node| node.op.class() == Class::Filter;
    let images = past.iter().any(|other| other.op.image_column() == node.op.image_column());
    match node.op.image_column() {
        None if filters(node) && earlier => "they see only the rows that it keeps",
        _ if past.iter().any(|other| filters(other)) && !earlier => "it sees only the rows that are kept",
        Some(_) if images && earlier && node.op.image().is_some_and(|image| image.effect().is_smaller()) => {
            "they work on fewer pixels"
        }
        Some(_) if images && !earlier => "it works on fewer pixels",
        Some(_) => "ops of one image are one pass",
        None if past.iter().any(|other| other.op.image_column().is_some()) => "ops of one image are one pass",
        None => "rows are smaller there",
    }
}
