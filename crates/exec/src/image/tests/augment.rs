//! Edits against torchvision's, as `tests/golden/augment/make_golden.py` wrote them; what augmentations draw.

use forebay_core::SampleId;
use forebay_core::rng::SampleRng;

use super::golden::file;
use crate::image::edit::{Edit, Recolour};
use crate::image::flow::Flow;
use crate::image::{Augment, Chain, Image, Limits, Scratch, Step};

/// Runs one edit on pixels of a shape.
fn edited(edit: Edit, [height, width, channels]: [usize; 3], pixels: &[u8]) -> Vec<u8> {
    let mut scratch = Scratch::new(Limits::default()).expect("memory");
    let image = Image::packed(pixels, width, height, channels).expect("its size");
    let mut flow = Flow::given(image, &mut scratch);
    flow.edit(edit).expect("valid");
    let mut out = vec![0; pixels.len()];
    flow.finish(None, &mut out).expect("its size");
    out
}

/// The edit of a line: its name, then its parameters.
fn parse(words: &[&str]) -> Edit {
    let number = |i: usize| words[i].parse::<f64>().expect("a number");
    match words[0] {
        "brightness" => Edit::Recolour(Recolour::Brightness(number(1))),
        "contrast" => Edit::Recolour(Recolour::Contrast(number(1))),
        "saturation" => Edit::Recolour(Recolour::Saturation(number(1))),
        "hue" => Edit::Recolour(Recolour::Hue(number(1))),
        "grey" => Edit::Recolour(Recolour::Grey),
        "blur" => Edit::Blur { size: number(1) as usize, sigma: number(2) },
        other => panic!("no edit is called {other}"),
    }
}

#[test]
fn edits_are_torchvisions() {
    let text = String::from_utf8(file("augment/cases.txt")).expect("text");
    let bytes = file("augment/cases.u8");
    let mut rest = bytes.as_slice();
    let mut wrong = Vec::new();
    let mut sources: Vec<([usize; 3], &[u8])> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "source" {
            let shape: Vec<usize> = words[1..].iter().map(|w| w.parse().expect("a number")).collect();
            let (pixels, after) = rest.split_at(shape.iter().product());
            sources.push((shape.try_into().expect("height, width, channels"), pixels));
            rest = after;
            continue;
        }
        // Source, the most levels and the most pixels in a thousand that may differ, the edit.
        let [source, levels, share]: [usize; 3] = std::array::from_fn(|i| words[i].parse().expect("a number"));
        let (shape, pixels) = sources[source];
        let (want, after) = rest.split_at(pixels.len());
        rest = after;
        let got = edited(parse(&words[3..]), shape, pixels);
        let apart: Vec<_> = got.iter().zip(want).map(|(a, b)| a.abs_diff(*b)).filter(|&d| d > 0).collect();
        let worst = apart.iter().max().copied().unwrap_or(0);
        if usize::from(worst) > levels || apart.len() * 1000 > share * want.len() {
            wrong.push(format!("{line}: {} of {} differ, by {worst} at most", apart.len(), want.len()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(rest.is_empty(), "{} bytes are of no case", rest.len());
}

fn drawn(augment: &Augment, sample: u64) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut rng = SampleRng::new(11, SampleId(sample));
    augment.draw(&mut rng, |edit| Ok(edits.push(edit))).expect("never refused");
    edits
}

#[test]
fn jitter_draws_uniform_factors_in_any_order() {
    let intervals = [(0.2, 1.8), (0.5, 1.5), (0.0, 3.0), (-0.1, 0.1)];
    let [brightness, contrast, saturation, hue] = intervals.map(Some);
    let augment = Augment::ColorJitter { brightness, contrast, saturation, hue, p: 0.8 };
    let (mut applied, mut first, mut sums) = (0, [0; 4], [0.0; 4]);
    for edits in (0..20_000).map(|sample| drawn(&augment, sample)).filter(|edits| !edits.is_empty()) {
        applied += 1;
        let factors = edits.iter().map(|edit| match *edit {
            Edit::Recolour(Recolour::Brightness(f)) => (0, f),
            Edit::Recolour(Recolour::Contrast(f)) => (1, f),
            Edit::Recolour(Recolour::Saturation(f)) => (2, f),
            Edit::Recolour(Recolour::Hue(f)) => (3, f),
            ref other => panic!("{other:?} is no jitter"),
        });
        let factors: Vec<_> = factors.collect();
        assert_eq!(factors.len(), 4);
        first[factors[0].0] += 1;
        for (which, factor) in factors {
            let (low, high) = intervals[which];
            assert!(low <= factor && factor < high);
            sums[which] += (factor - low) / (high - low);
        }
    }
    assert!((15_700..16_300).contains(&applied), "{applied}");
    assert!(first.iter().all(|n| (3_700..4_300).contains(n)), "{first:?}");
    assert!(sums.iter().all(|sum| (sum / f64::from(applied) - 0.5).abs() < 0.01), "{sums:?}");
    let alone = Augment::ColorJitter { brightness: None, contrast: None, saturation: None, hue, p: 1.0 };
    assert!(matches!(drawn(&alone, 3)[..], [Edit::Recolour(Recolour::Hue(_))]));
}

#[test]
fn an_augmentation_that_cannot_work_is_refused() {
    let message = |augment| {
        Chain::new(None, vec![Step::Augment { augment, key_op: 0 }]).expect_err("refused").message().to_owned()
    };
    assert_eq!(message(Augment::Grayscale { p: 1.5 }), "grayscale with p 1.5 to 1.5, not within 0 and 1");
    let hue =
        Augment::ColorJitter { brightness: None, contrast: None, saturation: None, hue: Some((0.0, 0.6)), p: 1.0 };
    assert_eq!(message(hue), "color jitter with hue 0 to 0.6, not within -0.5 and 0.5");
}
