package org.flashmob.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.io.File;
import java.util.Arrays;
import java.util.List;
import org.junit.Test;

public class NodeCommandTest {
    private static List<String> command(String name, String join) {
        return NodeCommand.of(new File("/lib/libflashmob.so"), new File("/files/extent.bin"), 8L << 30, 7411, 7412,
                new File("/files/device-state.json"), name, join, true, false);
    }

    @Test
    public void allOfItInTheOrderOfTheContract() {
        assertEquals(Arrays.asList("/lib/libflashmob.so", "node", "--data", "/files/extent.bin", "--size", "8589934592", "--listen", "0.0.0.0:7411",
                "--admin", "127.0.0.1:7412", "--device-state", "/files/device-state.json", "--name=Nexus 7", "--join", "192.168.1.5:10810", "--insecure"),
                command("Nexus 7", "192.168.1.5:10810"));
    }

    @Test
    public void whatIsNotGivenIsNotPassed() {
        List<String> command = command("", null);
        assertEquals(Arrays.asList("/files/device-state.json", "--insecure"), command.subList(command.size() - 2, command.size()));
    }

    @Test
    public void aLinkWithASecretIsNoArgument() {
        List<String> command = NodeCommand.of(new File("/n"), new File("/d"), 1, 1, 2, new File("/s"), "", null, false, true);
        assertFalse("never without keys", command.contains("--insecure"));
        assertEquals(Arrays.asList("--token-file", "-"), command.subList(command.size() - 2, command.size()));
    }

    @Test
    public void aNameIsOneHarmlessWord() {
        assertEquals("--data-x", NodeCommand.plainName("--data=x"));
        assertEquals("a-b-c", NodeCommand.plainName("a\nb\u0000c"));
        assertEquals("J-rgens Tab", NodeCommand.plainName(" J\u00fcrgens Tab "));
        assertEquals(40, NodeCommand.plainName(new String(new char[100]).replace('\0', 'x')).length());
        List<String> command = command("--forget", null);
        assertEquals("--name=--forget", command.get(command.size() - 2));
    }
}
