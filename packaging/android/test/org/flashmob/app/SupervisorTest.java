package org.flashmob.app;

import static org.flashmob.app.Supervisor.Hold.LOW_BATTERY;
import static org.flashmob.app.Supervisor.Phase.FAILED;
import static org.flashmob.app.Supervisor.Phase.PAUSED;
import static org.flashmob.app.Supervisor.Phase.SERVING;
import static org.flashmob.app.Supervisor.Phase.STARTING;
import static org.flashmob.app.Supervisor.Phase.STOPPED;
import static org.flashmob.app.Supervisor.Phase.STOPPING;
import static org.flashmob.app.Supervisor.Phase.WAITING;
import static org.junit.Assert.assertEquals;

import org.junit.Test;

public class SupervisorTest {
    private final StringBuilder done = new StringBuilder();
    private final Supervisor.Pace pace = new Supervisor.Pace();
    private final Supervisor supervisor = new Supervisor(pace, new Supervisor.Hands() {
        @Override
        public void spawn() {
            done.append("spawn ");
        }

        @Override
        public void terminate() {
            done.append("terminate ");
        }

        @Override
        public void kill() {
            done.append("kill ");
        }
    });

    private void did(String what) {
        assertEquals(what, done.toString().trim());
        done.setLength(0);
    }

    private void serve(long nowMs) {
        supervisor.start(nowMs);
        supervisor.answered(nowMs);
        did("spawn");
        assertEquals(SERVING, supervisor.phase());
    }

    @Test
    public void startsServesAndStops() {
        assertEquals(STOPPED, supervisor.phase());
        supervisor.start(0);
        assertEquals(STARTING, supervisor.phase());
        supervisor.answered(100);
        assertEquals(SERVING, supervisor.phase());
        supervisor.stop(200);
        did("spawn terminate");
        assertEquals(STOPPING, supervisor.phase());
        supervisor.ended("asked to", 300);
        assertEquals(STOPPED, supervisor.phase());
        assertEquals(0, supervisor.failures());
        supervisor.tick(1_000_000);
        did("");
    }

    @Test
    public void oneThatDoesNotEndIsKilledOnce() {
        serve(0);
        supervisor.stop(0);
        assertEquals(pace.killAfterMs, supervisor.nextMs());
        supervisor.tick(pace.killAfterMs - 1);
        did("terminate");
        supervisor.tick(pace.killAfterMs);
        supervisor.tick(pace.killAfterMs + 1);
        did("kill");
    }

    @Test
    public void deathsAreAnsweredLaterAndLaterAndThenNoMore() {
        supervisor.start(0);
        did("spawn");
        long nowMs = 0;
        for (long waitMs : new long[] {1_000, 2_000, 4_000, 8_000}) {
            supervisor.ended("worn out", nowMs);
            assertEquals(WAITING, supervisor.phase());
            assertEquals(nowMs + waitMs, supervisor.nextMs());
            supervisor.tick(nowMs + waitMs - 1);
            did("");
            nowMs += waitMs;
            supervisor.tick(nowMs);
            did("spawn");
        }
        supervisor.ended("worn out", nowMs);
        assertEquals(FAILED, supervisor.phase());
        assertEquals("worn out", supervisor.lastDeath());
        assertEquals(5, supervisor.failures());
        supervisor.tick(nowMs + 1_000_000);
        did("");
        // Whoever tries again gets all attempts again.
        supervisor.start(nowMs);
        did("spawn");
        assertEquals(0, supervisor.failures());
    }

    @Test
    public void oneThatServedForLongBeginsANewRow() {
        supervisor.start(0);
        long nowMs = 0;
        for (int i = 0; i < 20; i++) {
            supervisor.answered(nowMs);
            nowMs += pace.soundAfterMs;
            supervisor.ended("now and then", nowMs);
            assertEquals(1, supervisor.failures());
            nowMs += pace.backoffFirstMs;
            supervisor.tick(nowMs);
        }
        assertEquals(STARTING, supervisor.phase());
    }

    @Test
    public void aPauseEndsItPolitelyAndItComesBack() {
        serve(0);
        supervisor.hold(LOW_BATTERY, 10);
        did("terminate");
        supervisor.ended("asked to", 20);
        assertEquals(PAUSED, supervisor.phase());
        assertEquals(LOW_BATTERY, supervisor.holdReason());
        assertEquals(0, supervisor.failures());
        supervisor.hold(null, 30);
        did("spawn");
    }

    @Test
    public void nothingStartsWhileItMustPause() {
        supervisor.hold(LOW_BATTERY, 0);
        supervisor.start(0);
        did("");
        assertEquals(PAUSED, supervisor.phase());
        supervisor.stop(1);
        assertEquals(STOPPED, supervisor.phase());
    }

    @Test
    public void aPauseThatIsOverBeforeTheProcessEndedStartsAnother() {
        serve(0);
        supervisor.hold(LOW_BATTERY, 10);
        supervisor.hold(null, 11);
        did("terminate");
        supervisor.ended("asked to", 20);
        did("spawn");
    }

    @Test
    public void newSettingsTakeAnotherProcess() {
        serve(0);
        supervisor.restart(10);
        did("terminate");
        supervisor.restart(11);
        did("");
        supervisor.ended("asked to", 20);
        did("spawn");
        assertEquals(0, supervisor.failures());
    }

    @Test
    public void stoppedWhileItWaitsItStaysStopped() {
        supervisor.start(0);
        supervisor.ended("worn out", 0);
        supervisor.stop(10);
        done.setLength(0);
        supervisor.tick(1_000_000);
        did("");
        assertEquals(STOPPED, supervisor.phase());
    }

    @Test
    public void aSpawnThatFailsAtOnceIsADeath() {
        Supervisor[] held = new Supervisor[1];
        held[0] = new Supervisor(pace, new Supervisor.Hands() {
            @Override
            public void spawn() {
                held[0].ended("no such file", 0);
            }

            @Override
            public void terminate() {}

            @Override
            public void kill() {}
        });
        held[0].start(0);
        assertEquals(WAITING, held[0].phase());
        assertEquals(1, held[0].failures());
    }
}
