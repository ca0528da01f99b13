"""`forebay lint`: it finds each planted mistake, at its line, and nothing in programs that are right."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay._src.lint.finding import Finding
from forebay._src.lint.lint import findings, lint
from forebay._src.written import Written

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table. A run of a script changes these two lists of this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    table = {"a": np.arange(500), "b": np.arange(500) * 0.5, "c": ["x", "y"] * 250}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    return tmp_path


def found(folder: Path, code: str, run: bool = True) -> dict[str, list[Finding]]:
    """The findings on a script, by rule. Its ops begin in line 6."""
    head = "import random, math\nimport forebay as fb\nimport numpy as np\nSCALE = 3\n"
    head += f"rows = fb.from_parquet({str(folder)!r} + '/*.parquet')\n"
    script = folder / "train.py"
    script.write_text(head + code)
    by_rule: dict[str, list[Finding]] = {}
    for finding in lint(script, run).findings:
        assert finding.file == str(script)
        by_rule.setdefault(finding.rule, []).append(finding)
    return by_rule


@pytest.mark.parametrize(
    ("code", "rule", "line"),
    [
        ("ds = rows.map(lambda row: {'y': row['b'] + random.random()})", "not-deterministic", 6),
        (
            "def f(row, seen=[]):\n    seen.append(1)\n    return {'n': len(seen)}\nds = rows.map(f)",
            "not-deterministic",
            9,
        ),
        ("ds = rows.filter(lambda row: random.random() < 0.5)", "not-deterministic", 6),
        ("ds = rows.map(lambda row: {'z': row['a'] if row['a'] < 20 else 0.5})", "other-dtype", 6),
        ("def f(row):\n    return {'z': 1 / (int(row['a']) - 30)}\nds = rows.map(f)", "sample-fails", 8),
        ("ds = (\n    rows\n    .with_column('w', fb.col('a') * 2)\n    .select('a')\n)", "unused-column", 8),
        ("ds = rows.with_column('w', fb.col('a')).rename(w='v').drop('v')", "unused-column", 6),
        ("ds = rows.cast(b='float32').with_column('b', fb.col('a') * 2)", "unused-column", 6),
        ("ds = rows.map(lambda r: {'y': math.gamma(r['a'] % 9 + 1)})", "reads-all-columns", 6),
        ("ds = (\n    rows\n    .shuffle()\n    .skip(50)\n)", "part-behind-shuffle", 9),
        ("ds = rows.shuffle()[50:]", "part-behind-shuffle", 6),
        ("ds = rows.shuffle().select_rows(range(50, 500))", "part-behind-shuffle", 6),
        (
            "made = fb.from_dict({'x': [np.zeros((n, 9, 3), np.uint8) for n in (8, 9)]})\n"
            "ds = made.resize('x', 32).center_crop('x', 28)",
            "square-before-crop",
            7,
        ),
        ("rows.shuffle()", "unused-result", 6),
        ("for _ in range(2):\n    rows.shuffle().batch(8)", "unused-result", 7),
        ("ds = rows.batch(8).shuffle()", "shuffle-behind-batch", 6),
        ("ds = rows.select('none')", "invalid-pipeline", 6),
    ],
)
def test_a_planted_mistake_is_found_at_its_line(here: Path, code: str, rule: str, line: int) -> None:
    by_rule = found(here, code)
    assert list(by_rule) == [rule]
    (finding,) = by_rule[rule]
    assert (finding.line, bool(finding.message), bool(finding.write)) == (line, True, True)


def test_each_function_that_fails_is_told_once(here: Path) -> None:
    """Each dataset meets other samples first, and an op behind one that fails may fail by itself."""
    fails = "    if row['a'] % 10 == {}:\n        raise ValueError(row['a'])\n    return row\n"
    code = f"def f(row):\n{fails.format(3)}def g(row):\n{fails.format(7)}"
    code += "base = rows.map(f)\nmore = base.shuffle().map(g)\nmost = more.batch(8)\n"
    by_rule = found(here, code)
    assert list(by_rule) == ["sample-fails"]
    assert [(f.line, f.message.partition(":")[0]) for f in by_rule["sample-fails"]] == [
        (14, "f raised ValueError"),
        (15, "g raised ValueError"),
    ]


#: Functions, and the same as expressions.
REPLACED = {
    "map(lambda row: {'y': row['a'] * SCALE + 1})": "with_column('y', fb.col('a') * SCALE + 1).select('y')",
    "filter(lambda r: r['a'] > 3 and r['c'] in ('x', 'z'))": "filter((fb.col('a') > 3) & fb.col('c').isin(['x', 'z']))",
    "map(lambda r: {'u': r['c'].upper()}, writes='u')": "with_column('u', fb.col('c').str.upper())",
    "map(lambda r: {'s': np.float32(np.sqrt(r['a']))}, writes='s')": (
        "with_column('s', fb.col('a').sqrt().cast('float32'))"
    ),
    "map(lambda r: {'w': r['b'] if r['a'] % 2 == 0 else 0.0}, writes='w')": (
        "with_column('w', fb.where(fb.col('a') % 2 == 0, fb.col('b'), 0.0))"
    ),
}


@pytest.mark.parametrize("code", REPLACED)
def test_a_function_that_an_expression_replaces_is_written_as_one(here: Path, code: str) -> None:
    write = REPLACED[code]
    by_rule = found(here, f"ds = rows.{code}\n")
    assert {rule: [f.write for f in of] for rule, of in by_rule.items()} == {"python-function": [f".{write}"]}
    rows = fb.from_parquet(f"{here}/*.parquet")
    names = {"fb": fb, "np": np, "rows": rows, "SCALE": 3}
    mine, theirs = eval(f"rows.{code}", names), eval(f"rows.{write}", names)
    assert mine.schema.items() == theirs.schema.items()
    assert [*mine] == [*theirs]


def test_a_function_that_only_looks_like_an_expression_is_left_alone(here: Path) -> None:
    # Python's numbers do not wrap, and NumPy's do; a global that the function changes is no constant.
    code = "small = rows.cast(a='int8')\nds = small.map(lambda r: {'y': int(r['a']) * 100 + r['a']}, writes=['y'])\n"
    assert "python-function" not in found(here, code)
    code = "n = [0]\ndef f(r):\n    n[0] = 1\n    return {'y': r['a'] + n[0]}\nds = rows.map(f, reads=['a'])"
    assert found(here, code) == {}


def test_parts_that_stay_have_no_finding(here: Path) -> None:
    code = "train, test = rows.split(0.9)\ntrain = train.shuffle()\nhead = rows.skip(50).shuffle()\nhead.show()\n"
    assert found(here, code + "some = rows.shuffle().take(50)") == {}


def test_what_is_right_has_no_finding(here: Path) -> None:
    code = """
def noise(row, rng):
    return {"n": rng.normal(row["a"])}
def tall(row):
    return {"tall": row["b"] > math.gamma(3)}
ds = (
    rows.map(noise, reads=["a"], writes=["n"])
    .map(tall, reads=["b"], writes=["tall"])
    .filter(fb.col("tall"))
    .with_column("half", fb.col("n") / 2)
    .drop("n")
    .shuffle()
    .batch(8)
    .map(lambda batch: {"mean": batch["half"].mean()[None].repeat(len(batch["half"]))}, reads="half")
)
few = rows.filter(lambda row: row["a"] == 499 + math.gamma(1) * 0, reads=["a"])
def skips(row):
    if row["a"] % 2:
        raise fb.SkipSample
    return {"a": row["a"]}
odd = rows.map(skips, reads=["a"])
mixed = fb.concatenate([rows.select("a"), odd.select("a")])
"""
    assert found(here, code) == {}


def test_a_dataset_whose_filter_drops_all_ends(here: Path) -> None:
    (here / "train.py").write_text("import forebay as fb\nds = fb.range(10**12).filter(fb.col('id') < 0)\n")
    report = lint(here / "train.py")
    assert (report.findings, report.costs) == ([], {"ds": None})
    assert "there are no samples" in str(report)


def module(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_examples_have_no_findings(tmp_path: Path) -> None:
    """test_docs.py checks the pages of docs/."""
    photos = str(fb.examples.photos(tmp_path / "photos", 12))
    model, table = module("language_model"), module("tabular")
    (tmp_path / "text").mkdir()
    (tmp_path / "table").mkdir()
    model.write_corpus(tmp_path / "text")
    table.write_table(tmp_path / "table")
    datasets = [
        module("images").train_pipeline(photos),
        module("images").test_pipeline(photos),
        model.pipeline(tmp_path / "text"),
        table.pipeline(tmp_path / "table"),
        module("ranks").pipeline(),
        module("service").pipeline(),
    ]
    assert [str(one) for ds in datasets for one in findings("ds", Written.of(ds))] == []


def test_the_command_prints_findings_and_its_code_tells_them(tmp_path: Path) -> None:
    script = tmp_path / "train.py"

    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        run = [sys.executable, "-m", "forebay", "lint", str(script), *map(str, arguments)]
        return subprocess.run(run, capture_output=True, text=True, timeout=180)

    script.write_text("import forebay as fb\nds = fb.range(100).with_column('x\\x1b[31m', 1).select('id').batch(10)\n")
    done = command()
    assert done.returncode == 0, done.stderr
    assert f"{script}:2: warning [unused-column]" in done.stdout
    assert "10 samples" not in done.stdout
    assert "all 100 samples" in done.stdout
    assert "\x1b" not in done.stdout
    assert command("--strict", "--no-run").returncode == 1
    said = json.loads(command("--json").stdout)
    assert [(f["rule"], f["line"], f["dataset"]) for f in said["findings"]] == [("unused-column", 2, "ds")]
    assert said["datasets"]["ds"]["sample_bytes"] == 8
    script.write_text("import forebay as fb\nds = fb.range(100).batch(10).shuffle()\n")
    done = command()
    assert (done.returncode, "error [shuffle-behind-batch]" in done.stdout) == (1, True)
    script.write_text("x = 1\n")
    assert command().returncode == 4
    script.write_text("import sys, forebay as fb\nds = fb.range(5)\nsys.exit(0)\n")
    done = command()
    assert (done.returncode, "ended by sys.exit(0)" in done.stderr) == (4, True)
    script.write_text("def f():\n    raise ValueError('mine')\nf()\n")
    done = command()
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].endswith('train.py", line 3, in <module>'), done.stderr
    script.unlink()
    assert command().returncode == 4
