//! The cost of each op of a job, as `forebay jobs show` prints it: shows slow ops, and ops whose output is larger than
//! their input.

use forebay_dashboard::model::Op;

use crate::output;

/// The headings of [`rows`]. The costliest op is marked in the first column.
pub(super) const HEADINGS: [&str; 8] = ["", "OP", "LINE", "AT", "TIME", "US/ROW", "BYTES/ROW", "FACTOR"];

/// Returns the rows of a table.
pub(super) fn rows(ops: &[Op<'_>]) -> Vec<[String; 8]> {
    let most = ops.iter().filter_map(|op| op.share).fold(0.0, f64::max);
    let of_row = |bytes: u64, rows: u64| match rows {
        0 => "-".to_owned(),
        rows => output::bytes(bytes.div_ceil(rows)),
    };
    let row = |op: &Op<'_>| {
        let mark = if most > 0.0 && op.share == Some(most) { "*" } else { "" };
        let share = op.share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        let out = of_row(op.bytes_out, op.rows_out);
        let (bytes, factor) = match op.bytes_in {
            0 => (format!("-> {out}"), "-".to_owned()),
            bytes => {
                let into = of_row(bytes, op.rows_in);
                (format!("{into} -> {out}"), format!("{:.2}", op.bytes_out as f64 / bytes as f64))
            }
        };
        let found = op.rows_found as f64 / op.rows_in.max(1) as f64;
        let name = match op.rows_found {
            0 => op.op.to_owned(),
            _ => format!("{} ({:.0} % found)", op.op, 100.0 * found),
        };
        let line = op.line.unwrap_or("").to_owned();
        [mark.to_owned(), name, line, op.at.to_owned(), share, format!("{:.1}", op.row_us), bytes, factor]
    };
    ops.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_client::OpStatus;

    #[test]
    fn the_costliest_op_is_marked_and_bytes_are_those_of_a_row() {
        let status = |op: &str, rows: [u64; 3], row_us, bytes: [u64; 2]| OpStatus {
            op: op.to_owned(),
            line: "train.py:3".to_owned(),
            at: "workers".to_owned(),
            rows_in: rows[0],
            rows_out: rows[1],
            rows_found: rows[2],
            seconds: 1.0,
            bytes_in: bytes[0],
            bytes_out: bytes[1],
            row_us,
            earlier: false,
        };
        let told = [
            status("read", [100, 100, 0], 10.0, [0, 409_600]),
            status("decode_image", [100, 100, 0], 80.0, [409_600, 819_200]),
            status("filter", [100, 50, 0], 1.0, [819_200, 409_600]),
            status("cache", [50, 50, 25], 18.0, [409_600, 409_600]),
        ];
        let ops = Op::all(&told);
        let row = |cells: [&str; 8]| cells.map(str::to_owned);
        let want = [
            row(["", "read", "train.py:3", "workers", "10.0 %", "10.0", "-> 4.0 KiB", "-"]),
            row(["*", "decode_image", "train.py:3", "workers", "80.0 %", "80.0", "4.0 KiB -> 8.0 KiB", "2.00"]),
            row(["", "filter", "train.py:3", "workers", "1.0 %", "1.0", "8.0 KiB -> 8.0 KiB", "0.50"]),
            row(["", "cache (50 % found)", "train.py:3", "workers", "9.0 %", "18.0", "8.0 KiB -> 8.0 KiB", "1.00"]),
        ];
        assert_eq!(rows(&ops), want);
        assert_eq!(rows(&[]), Vec::<[String; 8]>::new());
    }
}
