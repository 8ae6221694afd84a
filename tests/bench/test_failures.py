"""Tests of the benchmark of the classes of failures: the class of a log, and the score of many logs."""

import sys

from bench.failures import failure_of, main, score


def test_score_is_accuracy_and_mean_of_f1_over_classes():
    # storage: precision 1/2, recall 1; killed: precision 1, recall 1/2.
    assert score([("storage", "storage"), ("killed", "killed"), ("killed", "storage")]) == (2 / 3, 2 / 3)


def test_class_comes_from_end_of_log(tmp_path):
    log = tmp_path / "disk_full--1.log"
    log.write_text("MemoryError\n" + "a line\n" * 300 + "OSError: [Errno 28] No space left on device\n")
    assert failure_of(log).name == "disk_full"


def test_misses_are_listed(tmp_path, monkeypatch, capsys):
    (tmp_path / "disk_full--1.log").write_text("OSError: [Errno 28] No space left on device\n")
    (tmp_path / "storage--2.log").write_text("MemoryError\n")
    monkeypatch.setattr(sys, "argv", ["failures", str(tmp_path)])
    assert main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "storage--2.log: host_memory, by “MemoryError”",
        "2 logs of 2 classes: accuracy 0.500, macro-F1 0.333",
    ]


def test_folder_without_logs_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["failures", str(tmp_path)])
    assert main() == 2
    assert "has no file" in capsys.readouterr().out
