package org.flashmob.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import org.flashmob.app.JoinAddress.BadAddress;
import org.flashmob.app.JoinAddress.Problem;
import org.junit.Test;

public class JoinAddressTest {
    private static void refused(Problem problem, String text) {
        assertEquals(text, problem, assertThrows(text, BadAddress.class, () -> JoinAddress.parse(text)).problem);
    }

    @Test
    public void linksAndTypedAddressesMeanTheSame() throws Exception {
        assertEquals("192.168.1.5:10810", JoinAddress.parse("flashmob://join/192.168.1.5:10810").toString());
        assertEquals("192.168.1.5:10810", JoinAddress.parse(" 192.168.1.5:10810\n").toString());
        assertEquals("192.168.1.5:10810", JoinAddress.parse("FLASHMOB://join/192.168.1.5:10810/").toString());
        assertEquals("nas.local:1", JoinAddress.parse("Nas.local:1").toString());
        assertEquals("[fd00::1]:65535", JoinAddress.parse("flashmob://join/[fd00::1]:65535").toString());
        assertEquals("10.0.0.1:7", JoinAddress.parse("nas:7").at("10.0.0.1"));
    }

    @Test
    public void thePageIsAtTheSamePlace() throws Exception {
        assertEquals("http://192.168.1.5:7410/", JoinAddress.parse("192.168.1.5:7410").page(false));
        assertEquals("https://192.168.1.5:7410/", JoinAddress.parse("192.168.1.5:7410").page(true));
        assertEquals("http://nas.local:80/", JoinAddress.parse("flashmob://join/Nas.local:80").page(false));
        assertEquals("http://[fd00::1]:7410/", JoinAddress.parse("[FD00::1]:7410").page(false));
        assertEquals("https://[fd00::1]:7410/", JoinAddress.parse("[fd00::1]:7410").page(true));
    }

    @Test
    public void whatIsNoAddressIsRefused() {
        refused(Problem.TOO_LONG, "flashmob://join/" + new String(new char[300]).replace('\0', 'a') + ":1");
        refused(Problem.NOT_A_JOIN_LINK, "http://192.168.1.5:10810");
        refused(Problem.NOT_A_JOIN_LINK, "flashmob://leave/192.168.1.5:10810");
        refused(Problem.NOT_A_JOIN_LINK, "flashmob://joined/192.168.1.5:10810");
        for (String text : new String[] {"", null, "nas", "192.168.1.5:", "flashmob://join/", "[fd00::1]"}) {
            refused(Problem.NO_PORT, text);
        }
        for (String text : new String[] {"nas:0", "nas:65536", "nas:-1", "nas:+80", "nas:99999999999", "nas:1e3", "nas:10810?x", "nas: 80", "nas:٣"}) {
            refused(Problem.BAD_PORT, text);
        }
        for (String text : new String[] {":80", "a b:80", "a..b:80", "-a:80", "user@nas:80", "nas/x:80", "300.1.1.1:80", "1.2.3:80", "fd00::1:80",
                "[::1%eth0]:80", "[zz::1]:80", "[]:80", "--data:80", "a;b:80", "пример:80", "a_b:80",
                new String(new char[64]).replace('\0', 'a') + ":80"}) {
            refused(Problem.BAD_HOST, text);
        }
    }

    @Test
    public void aStrangersNetworkIsToldFromOnesOwn() throws Exception {
        for (String text : new String[] {"10.1.2.3:1", "172.16.0.1:1", "172.31.9.9:1", "192.168.0.9:1", "169.254.1.1:1", "100.64.0.1:1", "nas:1",
                "nas.local:1", "[fe80::1]:1", "[fd12::1]:1", "[::1]:1"}) {
            assertTrue(text, JoinAddress.parse(text).isNearby());
        }
        for (String text : new String[] {"8.8.8.8:1", "172.32.0.1:1", "192.169.0.1:1", "100.128.0.1:1", "flashmob.example.org:1", "[2001:db8::1]:1",
                "[fc::1]:1", "[fec0::1]:1"}) {
            assertFalse(text, JoinAddress.parse(text).isNearby());
        }
    }
}
