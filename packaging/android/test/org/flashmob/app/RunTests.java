package org.flashmob.app;

import java.io.OutputStream;
import java.io.PrintStream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the classes that are named; a line for each test that fails, and a last one with the counts. What Android prints meanwhile is left out. */
public final class RunTests extends RunListener {
    private static final int FRAMES_SHOWN = 12;

    private final PrintStream out;
    private int run;
    private int failed;

    private RunTests(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] names) throws ClassNotFoundException {
        RunTests tests = new RunTests(System.out);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        System.setErr(System.out);
        JUnitCore core = new JUnitCore();
        core.addListener(tests);
        for (String name : names) {
            int runBefore = tests.run;
            int failedBefore = tests.failed;
            core.run(Class.forName(name.startsWith("org.") ? name : "org.flashmob.app." + name));
            tests.out.printf("%-20s %d passed, %d failed%n", name.substring(name.lastIndexOf('.') + 1) + ":",
                    tests.run - runBefore - (tests.failed - failedBefore), tests.failed - failedBefore);
        }
        tests.out.println();
        tests.out.printf("%d passed, %d failed%n", tests.run - tests.failed, tests.failed);
        System.exit(tests.failed == 0 && tests.run > 0 ? 0 : 1);
    }

    @Override
    public void testFinished(Description test) {
        run++;
    }

    @Override
    public void testFailure(Failure failure) {
        failed++;
        out.println("FAIL: " + failure.getTestHeader());
        out.println("  " + failure.getException());
        StackTraceElement[] frames = failure.getException().getStackTrace();
        for (int i = 0; i < Math.min(FRAMES_SHOWN, frames.length); i++) {
            out.println("    " + frames[i]);
        }
    }
}
