package serve

import (
	"net"
	"testing"
)

// TestForeign: a page whose own name leads to 127.0.0.1 must not read what is served there.
func TestForeign(t *testing.T) {
	loopback, public := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9102},
		&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 9102}
	for host, want := range map[string]bool{
		"127.0.0.1:9102": false, "localhost": false, "LOCALHOST:9102": false, "[::1]:9102": false,
		"pawl.localhost": false,
		"evil.example":   true, "evil.example:9102": true, "127.0.0.1.evil.example": true, "": true,
	} {
		if got := foreign(loopback, host); got != want {
			t.Errorf("%q at a loopback address: %v", host, got)
		}
		if foreign(public, host) {
			t.Errorf("%q at another address is refused", host)
		}
	}
}
