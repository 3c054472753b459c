// Makes a random program's streams deep: hundreds of launches without a wait, with anything in between that is allowed
// there.
#pragma once
#include "random_wide.h"

static bool deep;

static void CUDA_CB dawdle(void *microseconds)
{
    pause_us((unsigned)(uintptr_t)microseconds);
}

// Submits something that is no launch.
static void stand_between(struct target target)
{
    switch (roll(6)) {
    case 0:
        CU_ON(target, cuLaunchHostFunc, cuLaunchHostFunc, _ptsz,
              (target.stream, dawdle, (void *)(uintptr_t)(1 + roll(200))));
        break;
    case 1:
        record(mine()->events[0], target);
        break;
    case 2:
        wait_for(some_event(), target);
        break;
    case 3:
        count_transfer(MEMSET, NO_HOST_MEMORY, set_device(true, target, mine()->device, 4096));
        break;
    case 4:
        copy_async(target);
        break;
    default:
        pause_us(1 + (unsigned)roll(one_in(4) ? 3000 : 150));
    }
}

static void step_deep(void)
{
    struct target target = any_target();
    target_enter(target);
    bool is_calm = one_in(2);
    for (int left = 100 + roll(1400); left > 0; left--) {
        launch(roll(KERNELS - 2), target);
        if (one_in(is_calm ? 300 : 40))
            stand_between(target);
    }
    target_leave(target);
}
