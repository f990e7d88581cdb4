package org.flashmob.app;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * The sizes that may be lent on this device: round steps, bounded by the free space less a reserve that stays the device's own.
 *
 * <p>The extent's file is sparse, it takes its room as it is written; so the bound is what must hold when it is full.
 */
final class SizeChoice {
    private static final long MIB = 1L << 20;
    private static final long GIB = 1L << 30;
    /** Android itself gets into trouble below a few hundred MiB; updates of apps need some more. */
    static final long RESERVE_BYTES_MIN = GIB;
    private static final int RESERVE_PART = 10;
    private static final long[] STEPS_GIB =
            {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024};

    final long freeBytes;
    final long reserveBytes;
    /** Ascending; empty if not even the smallest fits. */
    final List<Long> steps;

    SizeChoice(long freeBytes, long totalBytes) {
        this.freeBytes = Math.max(0, freeBytes);
        this.reserveBytes = Math.max(RESERVE_BYTES_MIN, totalBytes / RESERVE_PART);
        long most = this.freeBytes - reserveBytes;
        List<Long> fitting = new ArrayList<>();
        for (long mib : new long[] {256, 512}) {
            if (mib * MIB <= most) {
                fitting.add(mib * MIB);
            }
        }
        for (long gib : STEPS_GIB) {
            if (gib * GIB <= most) {
                fitting.add(gib * GIB);
            }
        }
        this.steps = Collections.unmodifiableList(fitting);
    }

    boolean isEmpty() {
        return steps.isEmpty();
    }

    /** The step to begin with: the largest that takes at most half of what is free. */
    long usualBytes() {
        return steps.isEmpty() ? 0 : steps.get(indexOf((freeBytes - reserveBytes) / 2));
    }

    /** Which step is the largest of at most {@code bytes}; the smallest if none is. */
    int indexOf(long bytes) {
        int index = 0;
        for (int i = 0; i < steps.size(); i++) {
            if (steps.get(i) <= bytes) {
                index = i;
            }
        }
        return index;
    }

    /** {@code bytes} as a step that fits now; 0 if none does. */
    long bounded(long bytes) {
        return steps.isEmpty() ? 0 : steps.get(indexOf(bytes));
    }
}
