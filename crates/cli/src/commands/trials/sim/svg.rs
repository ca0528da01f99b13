//! Workers over time, as a drawing: a stepped line for each policy, or for each kind.

use super::clock;
use super::plot::{Series, extent};

/// The drawing's size, and the place of its lines, in pixels.
const SIZE: (f64, f64) = (800.0, 360.0);
/// The approximate width of a letter.
const LETTER: f64 = 7.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 20.0;
const PLOT: (f64, f64) = (590.0, 300.0);
/// Okabe and Ito's colours, which are safe for colour-blind readers.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Returns the drawing. Names of policies and kinds need no escapes.
pub(super) fn draw(series: &[Series<'_>]) -> String {
    let (end, most) = extent(series);
    let x = |at: f64| LEFT + PLOT.0 * at / end;
    let y = |workers: u32| TOP + PLOT.1 * (1.0 - f64::from(workers) / f64::from(most));
    let names = series.iter().map(|one| one.name.len()).max().unwrap_or(0) as f64 * LETTER;
    let (width, height) = (SIZE.0.max(LEFT + PLOT.0 + 46.0 + names), SIZE.1);
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">"
        ),
        format!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"),
        format!(
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888888\"/>",
            bottom = TOP + PLOT.1,
            right = LEFT + PLOT.0
        ),
        text(LEFT - 6.0, y(most) + 4.0, "end", &most.to_string()),
        text(LEFT - 6.0, y(0) + 4.0, "end", "0"),
        text(LEFT, y(0) + 18.0, "start", "workers over time"),
        text(x(end), y(0) + 18.0, "end", &clock(end)),
    ];
    for (i, one) in series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let steps = one.changes().iter().map(|&(at, workers)| format!("H{:.1}V{:.1}", x(at), y(workers)));
        let path: String = steps.chain([format!("H{:.1}", x(one.ended_s))]).collect();
        lines.push(format!(
            "<path d=\"M{LEFT} {:.1}{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            y(0)
        ));
        let row = TOP + 14.0 * (i as f64 + 1.0);
        let left = LEFT + PLOT.0 + 20.0;
        lines.push(format!("<path d=\"M{left} {}h20\" stroke=\"{colour}\" stroke-width=\"3\"/>", row - 4.0));
        lines.push(text(left + 26.0, row, "start", &one.name));
    }
    lines.push("</svg>\n".to_owned());
    lines.join("\n")
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")
}
