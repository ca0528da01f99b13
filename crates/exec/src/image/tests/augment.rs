//! Compares edits with torchvision's, as `tests/golden/augment/make_golden.py` wrote them; checks the draws of
//! augmentations.

use forebay_core::SampleId;
use forebay_core::rng::SampleRng;
use forebay_plan::{Interpolation, Op, ops};

use super::golden::file;
use crate::image::edit::warp::Warp;
use crate::image::edit::{Edit, Recolour};
use crate::image::flow::Flow;
use crate::image::geometry::random_zoom_out;
use crate::image::{Augment, Depth, Image, Limits, Region, Scratch};

/// Runs one edit on pixels of a shape.
fn edited(edit: Edit, [height, width, channels]: [usize; 3], pixels: &[u8]) -> Vec<u8> {
    let mut scratch = Scratch::new(Limits::default());
    let image = Image::packed(pixels, width, height, channels).expect("its size");
    let mut flow = Flow::given(image, Depth::Eight, 0, &mut scratch);
    flow.edit(edit).expect("valid");
    let mut out = vec![0; pixels.len()];
    flow.finish(None, &mut out).expect("its size");
    out
}

/// Parses the edit of a line: its name, then its parameters.
fn parse(words: &[&str], size: (usize, usize)) -> Edit {
    let number = |i: usize| words[i].parse::<f64>().expect("a number");
    let how = |degrees| {
        let interpolation = if words[2] == "nearest" { Interpolation::Nearest } else { Interpolation::Bilinear };
        let fill = (words[3] != "none").then(|| words[3].split(',').map(|v| v.parse().expect("a level")).collect());
        Warp::rotation(degrees, interpolation, fill.map(|fill: Vec<u8>| std::array::from_fn(|c| fill[c % fill.len()])))
    };
    match words[0] {
        "brightness" => Edit::Recolour(Recolour::Brightness(number(1))),
        "contrast" => Edit::Recolour(Recolour::Contrast(number(1))),
        "saturation" => Edit::Recolour(Recolour::Saturation(number(1))),
        "hue" => Edit::Recolour(Recolour::Hue(number(1))),
        "grey" => Edit::Recolour(Recolour::Grey),
        "posterize" => Edit::Recolour(Recolour::Posterize(number(1) as u32)),
        "solarize" => Edit::Recolour(Recolour::Solarize(number(1))),
        "autocontrast" => Edit::Recolour(Recolour::AutoContrast),
        "equalize" => Edit::Recolour(Recolour::Equalize),
        "sharpness" => Edit::Sharpness(number(1)),
        "rotate" => Edit::Warp(how(number(1))),
        "shear_x" => Edit::Warp(Warp::shear(number(1), false, size, &how(0.0))),
        "shear_y" => Edit::Warp(Warp::shear(number(1), true, size, &how(0.0))),
        "shift_x" => Edit::Warp(Warp::shift(number(1), 0.0, &how(0.0))),
        "shift_y" => Edit::Warp(Warp::shift(0.0, number(1), &how(0.0))),
        "affine" => {
            let shift = (number(4), number(5));
            Edit::Warp(Warp::affine(number(1), shift, number(6), [number(7), number(8)], &how(0.0)))
        }
        "perspective" => {
            let corners = [4, 6, 8, 10].map(|i| [number(i), number(i + 1)]);
            Edit::Warp(Warp::perspective(corners, size, &how(0.0)).expect("convex corners"))
        }
        "permute" => Edit::Recolour(Recolour::Permute([1, 2, 3].map(|i| number(i) as usize))),
        "invert" => Edit::Recolour(Recolour::Solarize(0.0)),
        "erase" => {
            let [x, y, width, height] = [1, 2, 3, 4].map(|i| number(i) as usize);
            Edit::Erase { region: Region { x, y, width, height }, value: [5, 6, 7].map(|i| number(i) as u8) }
        }
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
        // The source, the largest difference in levels, the largest number of differing pixels in a thousand, the edit.
        let [source, levels, share]: [usize; 3] = std::array::from_fn(|i| words[i].parse().expect("a number"));
        let (shape, pixels) = sources[source];
        let (want, after) = rest.split_at(pixels.len());
        rest = after;
        let got = edited(parse(&words[3..], (shape[1], shape[0])), shape, pixels);
        let apart: Vec<_> = got.iter().zip(want).map(|(a, b)| a.abs_diff(*b)).filter(|&d| d > 0).collect();
        let worst = apart.iter().max().copied().unwrap_or(0);
        if usize::from(worst) > levels || apart.len() * 1000 > share * want.len() {
            wrong.push(format!("{line}: {} of {} differ, by {worst} at most", apart.len(), want.len()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(rest.is_empty(), "{} bytes are of no case", rest.len());
}

fn drawn(op: &Op, sample: u64) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut rng = SampleRng::new(11, SampleId(sample));
    let mut keep = |edit| {
        edits.push(edit);
        Ok(())
    };
    Augment::of(op).expect("an augmentation").draw((331, 662), &mut rng, &mut keep).expect("never refused");
    edits
}

#[test]
fn jitter_draws_uniform_factors_in_any_order() {
    let intervals = [(0.2, 1.8), (0.5, 1.5), (0.0, 3.0), (-0.1, 0.1)];
    let [brightness, contrast, saturation, hue] = intervals.map(Some);
    let column = || "image".to_owned();
    let jitter = ops::ColorJitter { column: column(), brightness, contrast, saturation, hue, probability: 0.8 };
    let augment = Op::ColorJitter(jitter);
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
    let (column, probability) = (column(), 1.0);
    let alone = Op::ColorJitter(ops::ColorJitter {
        column,
        brightness: None,
        contrast: None,
        saturation: None,
        hue,
        probability,
    });
    assert!(matches!(drawn(&alone, 3)[..], [Edit::Recolour(Recolour::Hue(_))]));
}

#[test]
fn a_policy_draws_its_operations_and_magnitudes_alike() {
    let column = || "image".to_owned();
    let (interpolation, fill) = (Interpolation::Nearest, None);
    let trivial =
        Op::TrivialAugment(ops::TrivialAugment { column: column(), num_magnitude_bins: 3, interpolation, fill: None });
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for sample in 0..28_000 {
        *seen.entry(format!("{:?}", drawn(&trivial, sample))).or_default() += 1;
    }
    let how = Warp::rotation(0.0, interpolation, fill);
    for (edit, most) in [
        (Edit::Recolour(Recolour::Posterize(5)), 667),
        (Edit::Recolour(Recolour::Solarize(255.0)), 667),
        (Edit::Recolour(Recolour::Equalize), 2000),
        (Edit::Warp(Warp::shift(-16.0, 0.0, &how)), 333),
        (Edit::Warp(Warp::rotation(135.0, interpolation, fill)), 333),
    ] {
        let got = seen.get(&format!("{:?}", [edit])).copied().unwrap_or(0);
        assert!((most * 8 / 10..most * 12 / 10).contains(&got), "{edit:?}: {got} of {seen:?}");
    }
    let policy = forebay_plan::AutoPolicy::Imagenet;
    let auto = Op::AutoAugment(ops::AutoAugment { column: column(), policy, interpolation, fill: None });
    let invert = Edit::Recolour(Recolour::Solarize(0.0));
    let inverted = (0..25_000).filter(|&sample| drawn(&auto, sample).contains(&invert)).count();
    // Of 25 pairs, the third from the end and two others have it, each with a probability of 0.6.
    assert!((1650..1950).contains(&inverted), "{inverted}");
}

#[test]
fn a_blend_is_the_sum_of_its_shares() {
    let pixels: Vec<u8> = (0..5 * 4 * 3).map(|v| (v * 4) as u8).collect();
    let mut scratch = Scratch::new(Limits::default());
    let image = Image::packed(&pixels, 5, 4, 3).expect("its size");
    let mut flow = Flow::given(image, Depth::Eight, 0, &mut scratch);
    // Shown upside down and from the other side: the copies are made of the image as it is shown.
    flow.flip = crate::image::Mirror { horizontal: true, vertical: true };
    let half = Warp::rotation(180.0, Interpolation::Nearest, None);
    for edit in [
        Edit::MixBegin { share: 0.25 },
        Edit::MixCopy,
        Edit::Recolour(Recolour::Solarize(0.0)),
        Edit::MixAdd { share: 0.25 },
        Edit::MixCopy,
        Edit::Warp(half),
        Edit::MixAdd { share: 0.5 },
        Edit::MixEnd,
    ] {
        flow.edit(edit).expect("valid");
    }
    let mut out = vec![0; pixels.len()];
    flow.finish(None, &mut out).expect("its size");
    // A quarter of the image and a quarter of its inverse are 63.75; half of the turned copy is half of what was given.
    let want: Vec<u8> = pixels.iter().map(|&v| (63.75 + f32::from(v) * 0.5) as u8).collect();
    assert_eq!(out, want);
}

#[test]
fn a_zoom_out_has_its_sides_and_places() {
    let mut zoomed = 0;
    for sample in 0..2_000 {
        let mut rng = SampleRng::new(2, SampleId(sample));
        let Some(canvas) = random_zoom_out((30, 20), (1.5, 3.0), 0.7, &mut rng) else { continue };
        zoomed += 1;
        let (width, height) = canvas.size;
        assert!((45..=90).contains(&width) && (30..=60).contains(&height), "{canvas:?}");
        assert!(canvas.left + 30 <= width && canvas.top + 20 <= height, "{canvas:?}");
    }
    assert!((1320..1480).contains(&zoomed), "{zoomed}");
}

#[test]
fn corners_that_span_no_convex_shape_have_no_perspective() {
    let how = Warp::rotation(0.0, Interpolation::Nearest, None);
    let view = |corners| Warp::perspective(corners, (8, 8), &how);
    assert!(view([[4.0, 4.0], [7.0, 0.0], [7.0, 7.0], [0.0, 7.0]]).is_none());
    assert!(view([[0.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 7.0]]).is_none());
    let warp = view([[1.0, 2.0], [7.0, 0.0], [6.0, 7.0], [0.0, 5.0]]).expect("convex");
    assert!(Warp::perspective([[0.0, 0.0]; 4], (1, 1), &how).is_none());
    // Its map back is its inverse: the corners of the image come to where they were moved.
    let back = warp.forward().expect("an inverse");
    for ([x, y], [to_x, to_y]) in
        [([0.0, 0.0], [1.0, 2.0]), ([7.0, 0.0], [7.0, 0.0]), ([7.0, 7.0], [6.0, 7.0]), ([0.0, 7.0], [0.0, 5.0])]
    {
        let [u, v, by] = back.map(|[a, b, c]| a * (x - 4.0) + b * (y - 4.0) + c);
        assert!((u / by + 4.0 - to_x).abs() < 1e-9 && (v / by + 4.0 - to_y).abs() < 1e-9, "{u} {v} {by}");
    }
}

#[test]
fn rand_augment_draws_each_operation_alike_both_ways() {
    let (interpolation, fill) = (Interpolation::Nearest, None);
    let times = |num_ops| {
        let (column, magnitude, num_magnitude_bins) = ("image".to_owned(), 9, 31);
        Op::RandAugment(ops::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill: None })
    };
    let augment = times(1);
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for sample in 0..28_000 {
        *seen.entry(format!("{:?}", drawn(&augment, sample))).or_default() += 1;
    }
    // Fourteen operations, nine of them with a sign.
    assert_eq!(seen.len(), 23, "{seen:?}");
    let how = Warp::rotation(0.0, interpolation, fill);
    for (edit, most) in [
        (None, 2000),
        (Some(Edit::Recolour(Recolour::Posterize(7))), 2000),
        (Some(Edit::Recolour(Recolour::Solarize(255.0 * 0.7))), 2000),
        (Some(Edit::Recolour(Recolour::Equalize)), 2000),
        (Some(Edit::Warp(Warp::shift(-45.0, 0.0, &how))), 1000),
        (Some(Edit::Warp(Warp::shift(0.0, 90.0, &how))), 1000),
        (Some(Edit::Warp(Warp::rotation(0.3 * 30.0, interpolation, fill))), 1000),
        (Some(Edit::Sharpness(1.0 - 0.3 * 0.9)), 1000),
    ] {
        let edits: Vec<Edit> = edit.into_iter().collect();
        let got = seen.get(&format!("{edits:?}")).copied().unwrap_or(0);
        assert!((most * 9 / 10..most * 11 / 10).contains(&got), "{edits:?}: {got} of {seen:?}");
    }
    let two = times(2);
    assert!((0..100).map(|sample| drawn(&two, sample).len()).sum::<usize>() > 170);
}
