import os
from pathlib import Path

import pytest

from flowbert.errors import UserError
from flowbert.io.run_folder import RunFolder, run_folder_shared


def test_default_is_named_after_the_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    path = RunFolder.choose(config="configs/flow_target.yaml").path
    assert path.parts[:2] == ("runs", "flow_target")
    assert not path.exists()


def test_unfinished_run_may_be_resumed_but_a_finished_one_not(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    assert RunFolder.choose(tmp_path).path == tmp_path
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UserError, match=r"^run_dir: .* holds a finished run \(results\.json\)"):
        RunFolder.choose(tmp_path)


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        RunFolder.choose(tmp_path / "file")


def test_processes_started_for_ddp_share_the_first_ones_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    first = RunFolder.choose(config="configs/quickstart.yaml")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert RunFolder.choose(config="configs/quickstart.yaml").path == first.path.resolve()


@pytest.mark.parametrize("before", [None, "/elsewhere"])
def test_the_shared_folder_is_forgotten_after_the_run(
    before: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FLOWBERT_RUN_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("FLOWBERT_RUN_DIR", before)
    with run_folder_shared():
        RunFolder.choose(tmp_path / "run")
        assert os.environ["FLOWBERT_RUN_DIR"] == str(tmp_path / "run")
    assert os.environ.get("FLOWBERT_RUN_DIR") == before


def test_layout(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.fitted_maps() == []
    run.model.mkdir()
    for name in ("whitening", "flow"):
        run.fitted_map(name).touch()
    run.encoder_identity.touch()
    run.encoder.mkdir()
    assert run.fitted_maps() == ["flow", "whitening"]
    assert RunFolder.of_checkpoint(run.checkpoints / "last.ckpt").path == tmp_path
