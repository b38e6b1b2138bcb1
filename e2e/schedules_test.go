//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSchedulesOverKills: processes that fire are killed, and no tick is lost or doubled.
func TestSchedulesOverKills(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		schedulesOverKills(t, "sqlite:"+t.TempDir()+"/pawl.db")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := os.Getenv("PAWL_TEST_POSTGRES")
		if server == "" {
			t.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
		}
		joint := map[bool]string{true: "&", false: "?"}[strings.Contains(server, "?")]
		url := fmt.Sprintf("%s%spawl_schema=e2e_%08x", server, joint, rand.Uint32())
		if err := migrate(url, "up"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = migrate(url, "down", "--to", "0", "--yes") })
		schedulesOverKills(t, url)
	})
}

func schedulesOverKills(t *testing.T, url string) {
	const processes, kills, every = 3, 4, 5 * time.Second
	dir := t.TempDir()
	var file strings.Builder
	file.WriteString("listen: off\nschedules:\n  each: {every: 1s, topic: ticks, missed: all}\n")
	for n := range 5 {
		file.WriteString(fmt.Sprintf("  s%d: {every: %ds, topic: ticks, missed: all}\n", n, 2+n))
	}
	if err := os.WriteFile(dir+"/pawl.yaml", []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PAWL_STORE="+url, "NO_COLOR=1")
	var running []*exec.Cmd
	start := func() {
		cmd := exec.Command("pawl", "up")
		cmd.Dir, cmd.Env = dir, env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	for range processes {
		start()
	}
	for range kills {
		time.Sleep(every)
		_ = running[0].Process.Kill() // one after the other: the one that fires is among them
		_ = running[0].Wait()
		running = running[1:]
		start()
	}
	time.Sleep(12 * time.Second) // a take-over is within a lease
	cmd := exec.Command("pawl", "messages", "ls", "--topic", "ticks", "-o", "jsonl", "--limit", "10000")
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ticks := map[string][]int64{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Headers map[string]string }
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, m.Headers["Pawl-Tick"])
		if err != nil {
			t.Fatal(err)
		}
		name := m.Headers["Pawl-Schedule"]
		ticks[name] = append(ticks[name], at.Unix())
	}
	if len(ticks) != 6 || len(ticks["each"]) < 25 {
		t.Fatalf("%d schedules, %d ticks", len(ticks), len(ticks["each"]))
	}
	for name, all := range ticks {
		slices.Sort(all)
		step := int64(1)
		if name != "each" {
			_, _ = fmt.Sscanf(name, "s%d", &step)
			step += 2
		}
		for i := 1; i < len(all); i++ {
			if all[i]-all[i-1] != step {
				t.Errorf("%s: a tick %d s after the one before, not %d s", name, all[i]-all[i-1], step)
			}
		}
	}
	t.Logf("%d ticks of the one each second, over %d kills", len(ticks["each"]), kills)
}
