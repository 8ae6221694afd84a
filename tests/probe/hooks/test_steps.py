"""Tests of the hook for optimizers. A step ends after the update of the optimizer."""

from tests.probe.hooks.scripts import run_script


def test_each_update_is_a_step(start_rank):
    assert run_script(start_rank, "for _ in range(5): train()\nprint(steps(), activity(), phase())") == [
        "5 train other"
    ]


def test_update_in_another_marked_activity_is_not_a_step(start_rank):
    script = """
        with zmon.activity("init"):
            optimizer.step()
        print(steps(), activity())
        train()
        print(steps(), activity())
    """
    assert run_script(start_rank, script) == ["0 init", "1 train"]


def test_many_batches_with_a_single_update_are_a_single_step(start_rank):
    script = """
        for _ in range(3):
            for _ in range(4):
                model(batch).sum().backward()
            optimizer.step()
        print(steps())
    """
    assert run_script(start_rank, script) == ["3"]


def test_closure_that_runs_many_times_is_a_single_step(start_rank):
    script = """
        lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=5)
        calls, phases = [], []
        def closure():
            lbfgs.zero_grad()
            loss = model(batch).pow(2).sum()
            loss.backward()
            calls.append(1)
            phases.append(phase())
            return loss
        for _ in range(3):
            lbfgs.step(closure)
        print(steps(), len(calls) > 3, set(phases))
    """
    assert run_script(start_rank, script) == ["3 True {'optimizer'}"]


def test_update_that_raises_is_not_a_step(start_rank):
    script = """
        class Failing(torch.optim.SGD):
            def step(self, closure=None):
                if fails:
                    raise RuntimeError("out of memory")
                super().step(closure)
        optimizer, fails = Failing(model.parameters(), 0.1), False
        for fails in (False, True, False):
            try:
                train()
            except RuntimeError:
                print("caught", steps())
        print(steps())
    """
    assert run_script(start_rank, script) == ["caught 1", "2"]


def test_two_optimizers_with_a_scheduler_are_a_single_step_per_round(start_rank):
    script = """
        other = torch.optim.Adam(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(other, 1)
        for _ in range(4):
            train()
            other.step()
            scheduler.step()
        print(steps())
    """
    assert run_script(start_rank, script) == ["4"]


def test_update_that_amp_skips_is_not_a_step(start_rank):
    script = """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for bad in (False, True, False):
            optimizer.zero_grad()
            scaler.scale(model(batch).sum() * (float("inf") if bad else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
        print(steps())
    """
    assert run_script(start_rank, script) == ["2"]


def test_round_that_evaluation_interrupts_is_a_step(start_rank):
    script = """
        other = torch.optim.SGD(model.parameters(), 0.1)
        for last in (False, False, True):
            train()
            if not last:
                other.step()
        print(steps())
        model.eval()
        with torch.no_grad():
            model(batch)
        print(steps(), activity())
        model.train()
        train()
        other.step()
        print(steps())
    """
    assert run_script(start_rank, script) == ["2", "3 eval", "4"]


def test_updates_inside_marked_steps_are_not_counted(start_rank):
    script = """
        train()
        for _ in range(3):
            with zmon.step():
                train()
                train()
        print(steps())
    """
    assert run_script(start_rank, script) == ["4"]


def test_marks_of_a_side_thread_are_not_marks_of_the_rank(start_rank):
    script = """
        from threading import Thread
        def side():
            with zmon.step(), zmon.activity("eval"):
                zmon.phase("data")
        thread = Thread(target=side)
        thread.start()
        thread.join()
        train()
        print(steps(), activity(), timeline.explicit_steps, timeline.explicit_phases, timeline.explicit_activity)
    """
    assert run_script(start_rank, script) == ["1 train False False False"]


def test_update_in_a_forked_worker_or_thread_is_not_a_step(start_rank):
    script = """
        from threading import Thread
        train()
        if not os.fork():
            train()
            os._exit(0)
        os.wait()
        thread = Thread(target=train)
        thread.start()
        thread.join()
        train()
        from zmon.box import layout
        from zmon.box.reader import BoxReader
        print(steps(), BoxReader(timeline.box.path).last_boundary()[layout.STEPS])
    """
    assert run_script(start_rank, script) == ["2 2"]


def test_optimizer_that_calls_other_optimizers_is_a_single_step(start_rank):
    """Examples are ZeroRedundancyOptimizer, TorchRec's CombinedOptimizer and sharpness-aware optimizers."""
    script = """
        class Outer(torch.optim.Optimizer):
            def __init__(self, inner):
                self.inner = inner
                super().__init__(inner[0].param_groups, {})
            def step(self, closure=None):
                for optimizer in self.inner:
                    optimizer.step()
        outer = Outer([optimizer, torch.optim.Adam(model.parameters())])
        for _ in range(10):
            outer.zero_grad()
            model(batch).sum().backward()
            outer.step()
        print(steps(), phase())
    """
    assert run_script(start_rank, script) == ["10 other"]


def test_steps_continue_after_a_nested_optimizer_failed(start_rank):
    script = """
        class Failing(torch.optim.SGD):
            fails = True
            def step(self, closure=None):
                if self.fails:
                    raise RuntimeError("no")
                return super().step(closure)
        failing = Failing(model.parameters(), 0.1)
        try:
            failing.step()
        except RuntimeError:
            failing.fails = False
        for _ in range(5):
            failing.step()
        print(steps())
    """
    assert run_script(start_rank, script) == ["5"]


def test_job_that_trains_in_another_thread_is_watched(start_rank):
    script = """
        import threading
        thread = threading.Thread(target=lambda: [train() for _ in range(10)])
        thread.start()
        thread.join()
        print(steps(), activity())
    """
    assert run_script(start_rank, script) == ["10 train"]


def test_second_training_thread_is_not_counted_as_the_rank(start_rank):
    script = """
        import threading
        train()
        other = nn.Linear(2, 1)
        def beside():
            optimizer = torch.optim.SGD(other.parameters(), 0.1)
            other(batch).sum().backward()
            optimizer.step()
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        train()
        print(steps())
    """
    assert run_script(start_rank, script) == ["2"]
