package org.flashmob.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class SizeChoiceTest {
    private static final long GIB = 1L << 30;

    @Test
    public void everyStepLeavesTheReserve() {
        for (long totalGib : new long[] {4, 16, 64, 512, 4096}) {
            for (long freeGib = 0; freeGib <= totalGib; freeGib += Math.max(1, totalGib / 16)) {
                SizeChoice choice = new SizeChoice(freeGib * GIB, totalGib * GIB);
                long before = 0;
                for (long step : choice.steps) {
                    assertTrue("ascending", step > before);
                    assertTrue(freeGib + " of " + totalGib, step + choice.reserveBytes <= choice.freeBytes);
                    before = step;
                }
            }
        }
    }

    @Test
    public void theReserveIsATenthAndAtLeastOneGib() {
        assertEquals(GIB, new SizeChoice(5 * GIB, 8 * GIB).reserveBytes);
        assertEquals(64 * GIB / 10, new SizeChoice(5 * GIB, 64 * GIB).reserveBytes);
    }

    @Test
    public void aFullDeviceHasNoSteps() {
        SizeChoice none = new SizeChoice(GIB + (200L << 20), 8 * GIB);
        assertTrue(none.isEmpty());
        assertEquals(0, none.bounded(8 * GIB));
        assertEquals(0, none.usualBytes());
        assertTrue(new SizeChoice(-1, 0).isEmpty());
    }

    @Test
    public void aSmallDeviceMayLendLessThanOneGib() {
        assertEquals(256L << 20, (long) new SizeChoice(GIB + (300L << 20), 8 * GIB).steps.get(0));
    }

    @Test
    public void whatNoLongerFitsBecomesTheLargestThatDoes() {
        SizeChoice choice = new SizeChoice(10 * GIB, 16 * GIB);
        assertEquals(8 * GIB, choice.bounded(64 * GIB));
        assertEquals(3 * GIB, choice.bounded(3 * GIB));
        assertEquals(256L << 20, choice.bounded(1));
        assertEquals(4 * GIB, choice.usualBytes());
    }
}
