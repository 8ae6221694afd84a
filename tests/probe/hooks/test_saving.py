"""Tests of the hook for saving. A save to a file is a checkpoint, which lasts until the rank trains again."""

import pytest

from tests.probe.hooks.scripts import run_script

SAVED = "timeline.ledger._numbers[layout.LAST_CHECKPOINT] > 0"


FILE = "os.path.dirname(sys.argv[0]) + '/model.pt'"


@pytest.mark.parametrize(
    "target", [FILE, *(pytest.param(target, marks=pytest.mark.slow) for target in (f"open({FILE}, 'wb')", f"f={FILE}"))]
)
def test_saving_is_a_checkpoint_until_the_rank_trains_again(start_rank, target):
    script = f"train()\ntorch.save(model, {target})\nprint(activity(), {SAVED})\ntrain()\nprint(activity(), steps())"
    assert run_script(start_rank, script) == ["checkpoint True", "train 2"]


def test_copy_in_memory_is_not_a_checkpoint(start_rank):
    assert run_script(start_rank, f"train()\ntorch.save(model, io.BytesIO())\nprint(activity(), {SAVED})") == [
        "train False"
    ]


def test_saving_before_the_first_step_belongs_to_init(start_rank):
    assert run_script(start_rank, f"torch.save(model, {FILE})\nprint(activity(), {SAVED})") == ["init False"]


def test_save_that_failed_is_not_the_last_checkpoint(start_rank):
    script = f"train()\ntry:\n    torch.save(model, '/no/such/place')\nexcept Exception:\n    print({SAVED})"
    assert run_script(start_rank, script) == ["False"]


def test_activity_that_the_job_marks_is_unchanged(start_rank):
    script = "train()\nwith zmon.activity('eval'):\n    torch.save(model, os.devnull)\n    print(activity())"
    assert run_script(start_rank, script) == ["eval"]


def test_model_saved_in_eval_mode_contains_nothing_of_zmon(start_rank):
    """The file must load in an environment without zmon."""
    script = """
        train()
        model.eval()
        file = io.BytesIO()
        torch.save(model, file)
        print(b"zmon" in file.getvalue(), b"zmon" in pickle.dumps(model))
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        with torch.no_grad():
            print(torch.equal(loaded(batch), copy.deepcopy(model)(batch)), activity())
            model(batch)
        print(activity())
        print(any(b"zmon" in pickle.dumps(thing) for thing in (optimizer, model.state_dict(), torch.save)))
    """
    assert run_script(start_rank, script) == ["False False", "True train", "eval", "False"]


def test_distributed_checkpoint_is_recognized_with_any_import(start_rank):
    script = """
        train()
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import save
        from torch.distributed.checkpoint.state_dict_saver import save as same
        print(save is same is dcp.save, hasattr(save, "__zmon__"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(model.state_dict(), checkpoint_id=os.path.dirname(sys.argv[0]) + "/dcp", no_dist=True)
        print(activity())
    """
    assert run_script(start_rank, script) == ["True True", "checkpoint"]
