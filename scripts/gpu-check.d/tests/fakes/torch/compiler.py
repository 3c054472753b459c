"""torch.compiler."""


def cudagraph_mark_step_begin():
    pass
