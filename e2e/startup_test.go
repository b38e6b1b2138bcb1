//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestUpWaitsForItsStore: a daemon whose server cannot be reached at the start stays,
// says so, and works when it can.
func TestUpWaitsForItsStore(t *testing.T) {
	in := newIncident(t, "auto_migrate: true\ntopics: {mail: {handler: exec, command: cat}}\n")
	closed, server := freeAddress(t), os.Getenv("PAWL_TEST_POSTGRES")
	away, host := "postgres://u@"+closed+"/nothing", ""
	if server != "" {
		sharedServer(in)
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		_, schema, _ := strings.Cut(in.env[len(in.env)-1], server)
		u.Host, host = closed, u.Host
		away = u.String() + schema
	}
	in.must("PAWL_STORE='" + away + "' pawl up --listen " + in.address + " >up.out 2>up.err & echo $! >up.pid")
	look := func(path string) string { return fmt.Sprintf("curl -s http://%s%s", in.address, path) }
	in.until(look("/livez"), "ok")
	in.until(look("/readyz"), "not ready")
	in.until("cat up.err", "… the store cannot be reached …")
	if server != "" {
		forward(t, closed, host)
		in.until("cat up.err", "… message=started …")
		in.until(look("/readyz")+" | grep -x ready", "ready")
	}
	in.must("daemon kill TERM; daemon gone")
	in.until("cat up.err", "… message=… stopped …")
}

// forward has an address lead to another.
func forward(t *testing.T, from, to string) {
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			} else if err != nil {
				continue
			}
			out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
}
