//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTrafficSQLite moves a topic from a file to another one, and back.
func TestTrafficSQLite(t *testing.T) {
	t.Parallel()
	moveTraffic(t, "sqlite:"+filepath.Join(t.TempDir(), "new.db"))
}

// TestTrafficKafka moves a topic from a file to a Kafka cluster, and back. Partitions go
// from one member of the group to another while messages of them are carried out. Each
// is done well within the time that is given for that, so none is repeated.
func TestTrafficKafka(t *testing.T) {
	t.Parallel()
	moveTraffic(t, kafkaURL(t))
}

// kafkaURL is the URL of a cluster, with topics and a group of its own.
func kafkaURL(t *testing.T) string {
	t.Helper()
	broker := os.Getenv("PAWL_TEST_KAFKA")
	if broker == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "kafka") {
			t.Fatal("PAWL_TEST_KAFKA is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_KAFKA is not set; dev/services run kafka -- go test …")
	}
	name := "e2e" + strconv.FormatInt(rand.Int64(), 36)
	return "kafka://" + broker + "?prefix=" + name + ".&group=" + name +
		"&state_topic=state&partitions=4&replicas=1&linger=1ms&fetch_wait=50ms"
}

// journey is a topic that moves while it is in use.
type journey struct {
	*testing.T
	env []string
	log string // a line for each message that was carried out
}

// run runs pawl and wants an exit code.
func (j *journey) run(want int, args ...string) string {
	j.Helper()
	var out, errs bytes.Buffer
	cmd := j.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	if took := time.Since(began); took > time.Second {
		j.Logf("pawl %s took %v\n%s%s", strings.Join(args, " "), took.Round(100*time.Millisecond), out.String(),
			errs.String())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		j.Fatal(err)
	} else if ok && exit.ExitCode() != want || !ok && want != 0 {
		j.Fatalf("pawl %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, want, out.String(),
			errs.String())
	}
	return out.String()
}

func (j *journey) command(args ...string) *exec.Cmd {
	cmd := exec.Command("pawl", args...)
	cmd.Env = j.env
	return cmd
}

// appendLines appends messages, and returns when they are stored.
func (j *journey) appendLines(mirror string, lines ...string) *exec.Cmd {
	j.Helper()
	cmd := j.command("send", "mail", "--jsonl")
	if mirror != "" {
		cmd.Env = append(slices.Clone(cmd.Env), "PAWL_MIRROR="+mirror)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		j.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	if _, err := io.WriteString(in, strings.Join(lines, "")); err != nil {
		j.Fatal(err)
	}
	return cmd
}

func line(key string, n int) string {
	return fmt.Sprintf(`{"id":"%s-%05d","key":"%s","body":"%s %05d"}`+"\n", key, n, key, key, n)
}

// notDone counts the messages of a store's topic that are not done.
func (j *journey) notDone(where string) int64 {
	j.Helper()
	var all []struct {
		Open map[string]int64 `json:"not_done"`
	}
	if err := json.Unmarshal([]byte(j.run(0, "traffic", "status", "mail", "-o", "json")), &all); err != nil ||
		len(all) != 1 {
		j.Fatalf("status: %v, %+v", err, all)
	}
	return all[0].Open[where]
}

// moveTraffic is the whole journey.
func moveTraffic(t *testing.T, target string) {
	dir := t.TempDir()
	j := &journey{T: t, log: filepath.Join(dir, "done.log"), env: append(os.Environ(),
		"PAWL_STORE=sqlite:"+filepath.Join(dir, "old.db"), "PAWL_MIRROR="+target, "USER=tester")}
	j.run(0, "send", "mail", "--id", "early-00000", "--key", "early", "early 00000")
	j.run(0, "traffic", "mirror", "mail")
	time.Sleep(2500 * time.Millisecond)

	// A producer that cannot reach the new store is killed: what it has appended has no
	// copies, and comparing finds exactly that.
	const killed = 40
	var lines []string
	for n := range killed {
		lines = append(lines, line(fmt.Sprint("killed", n%4), n))
	}
	producer := j.appendLines("sqlite:"+filepath.Join(dir, "no", "such", "folder.db"), lines...)
	j.await("the old store has what was appended", func() bool { return j.notDone("from") == killed+1 })
	if err := producer.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = producer.Wait()
	var found []struct {
		Missing, Before int64
		Differences     []struct{ Key string }
	}
	text := j.run(7, "traffic", "compare", "mail", "--wait", "1s", "-o", "json")
	if err := json.Unmarshal([]byte(text), &found); err != nil || found[0].Missing != killed ||
		len(found[0].Differences) != 4 || found[0].Before != 1 {
		t.Fatalf("comparing found %s (%v)", text, err)
	}
	j.run(5, "traffic", "cut-over", "mail", "--for", "1s", "--timeout", "2s")

	// From here on workers and a producer go on all the time.
	stopWorker := j.worker()
	feed, appended := j.feed()
	j.await("what differed is done", func() bool {
		return j.command("traffic", "compare", "mail", "--wait", "2s").Run() == nil
	})
	j.killCutOver()
	// It waits until nothing of the killed producer can arrive any more.
	j.await("a cut-over goes through", func() bool {
		return j.command("traffic", "cut-over", "mail", "--for", "2s").Run() == nil
	})
	if out := j.run(0, "traffic", "status", "mail"); !strings.Contains(out, "moved") {
		t.Fatalf("after the cut-over: %s", out)
	}
	mark := appended()
	j.await("the new store carries out what is appended now", func() bool {
		return appended() > mark+50 && j.done() > mark
	})
	j.run(0, "traffic", "roll-back", "mail")
	mark = appended()
	j.await("the old store carries out what is appended now", func() bool {
		return appended() > mark+50 && j.done() > mark
	})

	// Workers that have carried back go on, and leave the new store alone.
	stopSecond := j.worker()
	j.run(0, "traffic", "cut-over", "mail", "--for", "2s", "--timeout", "90s")
	mark = appended()
	j.await("the new store carries out what is appended now", func() bool {
		return appended() > mark+50 && j.done() > mark
	})
	total := feed() + killed + 1
	j.await("all is done", func() bool { return j.notDone("from") == 0 && j.notDone("to") == 0 && j.done() >= total })
	stopWorker()
	stopSecond()
	j.judge(total)
	for action, times := range map[string]int{"traffic mirror": 1, "traffic cut-over": 2, "traffic roll-back": 1} {
		if out := j.run(0, "audit", "ls", "--kind", action, "-o", "jsonl"); strings.Count(out, "\n") != times {
			t.Errorf("audit of %s: %s", action, out)
		}
	}
}

// killCutOver kills a cut-over while appends wait.
func (j *journey) killCutOver() {
	j.Helper()
	// It refuses while what a killed producer has sent may arrive.
	j.await("a cut-over closes the topic", j.closeAndDie)
	j.run(5, "traffic", "cut-over", "mail") // it is closed, until that is given up
	time.Sleep(30 * time.Second)
}

// closeAndDie starts a cut-over and kills it when appends wait; false if it gives up before.
func (j *journey) closeAndDie() (closed bool) {
	j.Helper()
	cmd := j.command("traffic", "cut-over", "mail", "--for", "1s")
	errs, err := cmd.StderrPipe()
	if err != nil {
		j.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	for lines := bufio.NewScanner(errs); !closed && lines.Scan(); {
		closed = strings.Contains(lines.Text(), "appends wait")
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	return closed
}

// worker carries out messages in the background, and returns what stops it.
func (j *journey) worker() (stop func()) {
	j.Helper()
	cmd := j.command("work", "mail", "--exec", `echo "$(cat)" >> "`+j.log+`"`, "--concurrency", "4")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			j.Errorf("the worker: %v\n%s", err, errs.String())
		}
	})
	j.Cleanup(stop)
	return stop
}

// feed appends 40 messages a second until stop is called, which returns how many were
// appended.
func (j *journey) feed() (stop, appended func() int) {
	j.Helper()
	cmd := j.command("send", "mail", "--jsonl")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		j.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	var mu sync.Mutex
	n, over := 0, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = in.Close() }()
		for {
			select {
			case <-over:
				return
			case <-time.After(25 * time.Millisecond):
			}
			mu.Lock()
			_, err := io.WriteString(in, line(fmt.Sprint("key", n%10), n))
			n++
			mu.Unlock()
			if err != nil {
				j.Error(err)
				return
			}
		}
	})
	appended = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	stop = sync.OnceValue(func() int {
		close(over)
		wg.Wait()
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), fmt.Sprintf(`"appended":%d`, n)) {
			j.Errorf("the producer: %v: %s, want %d", err, out.String(), n)
		}
		return n
	})
	j.Cleanup(func() { stop() })
	return stop, appended
}

// lines are what was carried out.
func (j *journey) lines() []string {
	text, err := os.ReadFile(j.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		j.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// done counts the different messages that were carried out.
func (j *journey) done() int {
	lines := j.lines()
	slices.Sort(lines)
	return len(slices.Compact(lines))
}

// judge wants every message once, and the messages of each key in order. Only a worker
// that dies, or takes longer than partitions are waited for, carries one out again.
func (j *journey) judge(total int) {
	j.Helper()
	seen, last := map[string]bool{}, map[string]string{}
	var twice []string
	for _, l := range j.lines() {
		key, n, ok := strings.Cut(l, " ")
		if !ok {
			j.Fatalf("a line of the log is %q", l)
		}
		if seen[l] {
			twice = append(twice, l)
			continue
		}
		if seen[l] = true; n < last[key] {
			j.Errorf("key %s: %s after %s", key, n, last[key])
		}
		last[key] = n
	}
	if len(seen) != total || len(twice) > 0 {
		j.Errorf("%d of %d messages were carried out, these again: %q", len(seen), total, twice)
	}
}

// await waits for something, for two minutes.
func (j *journey) await(what string, is func() bool) {
	j.Helper()
	defer func(began time.Time) {
		j.Logf("%v until %s", time.Since(began).Round(100*time.Millisecond),
			what)
	}(time.Now())
	for until := time.Now().Add(2 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			j.Fatalf("it does not come to be that %s", what)
		}
	}
}
