package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestPgBouncerPage does what docs/deploy.md says of pool_mode=transaction: two processes serve the API through a
// pooler with fewer sessions than they open, clients of both append and work at once, each message is worked on once,
// and those of a key in their order.
func TestPgBouncerPage(t *testing.T) {
	t.Parallel()
	server, err := url.Parse(needed(t, "PAWL_TEST_POSTGRES", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	bouncer, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not there")
	}
	query := server.Query()
	query.Set("pawl_schema", fmt.Sprintf("e2e_%08x", rand.Uint32()))
	server.RawQuery = query.Encode()
	if err := migrate(server.String(), "up"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := migrate(server.String(), "down", "--to", "0", "--yes"); err != nil {
			t.Error(err)
		}
	})
	pooled := *server
	pooled.Host = freeAddress(t)
	query.Set("pawl_poll_only", "true")
	pooled.RawQuery = query.Encode()
	runBeside(t, pooler(t, bouncer, server, pooled.Port()))
	var doors [2]string
	for i := range doors {
		doors[i] = freeAddress(t)
		runBeside(t, exec.Command("pawl", "api", "--listen", doors[i], "--store", pooled.String()))
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := askJSON("http://"+doors[0]+"/readyz", "", nil)
		if err == nil {
			err = askJSON("http://"+doors[1]+"/readyz", "", nil)
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	workAtOnce(t, doors)
}

// workAtOnce appends messages by several clients while others work on them.
func workAtOnce(t *testing.T, doors [2]string) {
	t.Helper()
	const clients, each = 8, 20
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{} // by key, the newest
	count := 0
	for n := range clients {
		door := "http://" + doors[n%2]
		all.Go(func() {
			for i := range each {
				body := fmt.Sprintf(`{"key":"k%d","body":"%d"}`, n, i+1)
				if err := askJSON(door+"/v1/topics/pool/messages", body, nil); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
				var leased struct {
					Deliveries []struct{ Key, Body, Token string }
				}
				if err := askJSON(door+"/v1/lease", `{"topics":["pool"],"wait_seconds":1}`, &leased); err != nil {
					t.Error(err)
				}
				for _, d := range leased.Deliveries {
					i := 0
					_, _ = fmt.Sscan(d.Body, &i)
					mu.Lock()
					if count++; i != got[d.Key]+1 {
						t.Errorf("key %s: %d comes after %d", d.Key, i, got[d.Key])
					}
					got[d.Key] = i
					mu.Unlock()
					settle := `{"settlements":[{"token":"` + d.Token + `","verdict":"ack"}]}`
					if err := askJSON(door+"/v1/settle", settle, nil); err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				done := count == clients*each
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	if all.Wait(); count != clients*each {
		t.Errorf("%d deliveries of %d messages", count, clients*each)
	}
}

// pooler is a pgbouncer with four sessions before a server. It does not run as root.
func pooler(t *testing.T, bouncer string, server *url.URL, port string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-pooler-") //nolint:usetesting // its user cannot enter the test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	password, _ := server.User.Password()
	files := map[string]string{
		"users": fmt.Sprintf("%q %q\n", server.User.Username(), password),
		"pooler.ini": "[databases]\n* = host=" + server.Hostname() + " port=" + server.Port() + "\n[pgbouncer]\n" +
			"listen_addr = 127.0.0.1\nlisten_port = " + port + "\nunix_socket_dir =\nauth_type = plain\nauth_file = " +
			filepath.Join(dir, "users") + "\npool_mode = transaction\ndefault_pool_size = 4\n",
	}
	for name, text := range files {
		//nolint:gosec // another user reads it
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // likewise
		t.Fatal(err)
	}
	c := exec.Command(bouncer, filepath.Join(dir, "pooler.ini"))
	if os.Getuid() == 0 {
		const nobody = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return c
}
