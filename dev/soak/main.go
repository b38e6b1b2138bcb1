// Command soak lets work go on under kills, freezes and restarts, store by store and round by round, and reports it:
// out/soak.md, and a line of out/soak.jsonl for each round, with what its tests counted. A soak that was interrupted
// goes on with the rounds that are left; -fresh begins anew. It exits with 1 if a round failed.
//
//	dev/services run -- go run ./dev/soak -for 2h -round 10m
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// site is a store, with the tests of a round.
type site struct{ store, tests string }

// sites are the stores, with the tests of a round. Each judges conservation, order and histories of what it did.
var sites = []site{
	{"SQLite", "TestSoak/SQLite"},
	{"PostgreSQL", "TestSoak/Postgres|TestServerGone"},
	{"Kafka", "TestKafkaMembers|TestKafkaKilled|TestKafkaBrokerKilled|TestKafkaConnectionCut"},
}

// round is a line of soak.jsonl.
type round struct {
	Store   string         `json:"store"`
	Began   time.Time      `json:"began"`
	Seconds float64        `json:"seconds"`
	Passed  int            `json:"passed"`
	Failed  []string       `json:"failed"`
	Figures map[string]int `json:"figures"` // sums of what the tests counted, by its name
	Said    []string       `json:"said"`    // their figures, as they print them
	Why     []string       `json:"why"`     // the first and the last lines of those that failed
	lines   map[string][]string
}

type soak struct {
	total, each   time.Duration
	folder, store string
	// test runs tests for that long, and passes what go test -json prints to read.
	test func(ctx context.Context, tests string, length time.Duration, read func(io.Reader) error) error
}

func main() {
	s := soak{test: goTest}
	flag.DurationVar(&s.total, "for", time.Hour, "how long, on each store")
	flag.DurationVar(&s.each, "round", 10*time.Minute, "how long a round is")
	flag.StringVar(&s.folder, "out", "out", "folder of the report")
	flag.StringVar(&s.store, "store", "", "this store only: SQLite, PostgreSQL or Kafka")
	fresh := flag.Bool("fresh", false, "forget rounds of before")
	flag.Parse()
	if s.store != "" && !slices.ContainsFunc(sites, func(at site) bool { return at.store == s.store }) {
		fmt.Fprintf(os.Stderr, "error: no store %q is soaked\n  next: give SQLite, PostgreSQL or Kafka\n", s.store)
		os.Exit(2)
	}
	if *fresh {
		_ = os.Remove(filepath.Join(s.folder, "soak.jsonl"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

// run carries out the rounds that are left, the stores in turn, and writes the report after each.
func (s *soak) run(ctx context.Context) (failed bool, err error) {
	rounds, err := s.before()
	if err != nil {
		return false, err
	}
	for {
		began := len(rounds)
		for _, at := range sites {
			left := s.total - lasted(rounds, at.store)
			if left <= 0 || s.store != "" && s.store != at.store {
				continue
			}
			r, err := s.round(ctx, at.store, at.tests, min(left, s.each))
			if err != nil {
				return false, err
			}
			rounds = append(rounds, r)
			if err := s.keep(r, rounds); err != nil {
				return false, err
			}
		}
		if len(rounds) == began {
			break
		}
	}
	for _, r := range rounds {
		failed = failed || len(r.Failed) > 0 || r.Passed == 0
	}
	return failed, s.report(rounds)
}

// lasted is for how long a store has been soaked.
func lasted(rounds []round, store string) (sum time.Duration) {
	for _, r := range rounds {
		if r.Store == store {
			sum += time.Duration(r.Seconds * float64(time.Second))
		}
	}
	return sum
}

// before are the rounds of a soak that was interrupted.
func (s *soak) before() (rounds []round, err error) {
	text, err := os.ReadFile(filepath.Join(s.folder, "soak.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, os.MkdirAll(s.folder, 0o755)
	}
	for line := range strings.Lines(string(text)) {
		var r round
		if json.Unmarshal([]byte(line), &r) != nil {
			break // it was interrupted while it wrote
		}
		rounds = append(rounds, r)
	}
	return rounds, err
}

// event is a line of go test -json.
type event struct{ Action, Test, Output string }

func (s *soak) round(ctx context.Context, store, tests string, length time.Duration) (round, error) {
	fmt.Fprintf(os.Stderr, "soak: %s for %v\n", store, length.Round(time.Second))
	r := round{Store: store, Began: time.Now().UTC(), Failed: []string{}, Figures: map[string]int{},
		lines: map[string][]string{}}
	err := s.test(ctx, tests, length, func(in io.Reader) error {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				r.take(&e)
			}
		}
		return lines.Err()
	})
	r.Seconds = time.Since(r.Began).Seconds()
	if ctx.Err() != nil { // it counts for nothing
		return r, errors.New("it was interrupted; run it again to go on")
	}
	if _, fails := errors.AsType[*exec.ExitError](err); fails && len(r.Failed) == 0 {
		r.Failed = append(r.Failed, "the tests as a whole")
	} else if err != nil && !fails {
		return r, err
	}
	return r, nil
}

// A test logs its figures in a line that begins with one: "5000 messages, 12 kills: lost 0, out of order 0".
var (
	figures = regexp.MustCompile(`^\s+\w+_test\.go:\d+: (\d.*)\n$`)
	counted = regexp.MustCompile(`(\d+) ([a-z]+)`)
	judged  = regexp.MustCompile(`(lost|stuck|out of order|two live leases) (\d+)`)
)

// whyLines is how many lines of a test that failed are kept.
const whyLines = 80

func (r *round) take(e *event) {
	switch {
	case e.Action == "output":
		if m := figures.FindStringSubmatch(e.Output); m != nil {
			r.count(e.Test + ": " + m[1])
		}
		r.lines[e.Test] = append(r.lines[e.Test], strings.TrimRight(e.Output, "\n"))
	case e.Action == "pass" && e.Test != "":
		r.Passed++
	case e.Action == "fail" && e.Test != "":
		r.Failed = append(r.Failed, e.Test)
		all := r.lines[e.Test]
		if len(all) > whyLines {
			all = slices.Concat(all[:whyLines/2], []string{"…"}, all[len(all)-whyLines/2:])
		}
		r.Why = append(r.Why, all...)
	case e.Action == "skip" && e.Test != "":
		r.Failed = append(r.Failed, e.Test+" (skipped)")
	}
}

func (r *round) count(said string) {
	r.Said = append(r.Said, said)
	add := func(name, digits string) {
		n, _ := strconv.Atoi(digits)
		r.Figures[name] += n
	}
	for _, m := range counted.FindAllStringSubmatch(said, -1) {
		add(m[2], m[1])
	}
	for _, m := range judged.FindAllStringSubmatch(said, -1) {
		add(m[1], m[2])
	}
}

// keep adds a round to the file, and writes the report anew.
func (s *soak) keep(r round, rounds []round) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.folder, "soak.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close(), s.report(rounds))
}

func (s *soak) report(rounds []round) error {
	var b strings.Builder
	b.WriteString("# Soak\n\n| store | rounds | hours | tests passed | failed | messages | kills | stops | drains | lost | out of order | two leases |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, at := range sites {
		n, passed, failed, sum := 0, 0, []string{}, map[string]int{}
		for _, r := range rounds {
			if r.Store != at.store {
				continue
			}
			n, passed, failed = n+1, passed+r.Passed, append(failed, r.Failed...)
			for name, v := range r.Figures {
				sum[name] += v
			}
		}
		slices.Sort(failed)
		fmt.Fprintf(&b, "| %s | %d | %.2f | %d | %s | %d | %d | %d | %d | %d | %d | %d |\n", at.store, n,
			lasted(rounds, at.store).Hours(), passed, strings.Join(slices.Compact(failed), ", "),
			sum["messages"], sum["kills"], sum["stops"], sum["drains"], sum["lost"], sum["out of order"],
			sum["two live leases"])
	}
	b.WriteString("\nA test passes if every message came to its end (conservation), in the order of its key, and no two " +
		"live leases were on one (histories).\n")
	for _, r := range rounds {
		fmt.Fprintf(&b, "\n## %s, %s, %.0f s\n\n", r.Store, r.Began.Format(time.RFC3339), r.Seconds)
		for _, f := range r.Failed {
			fmt.Fprintf(&b, "- **failed:** %s\n", f)
		}
		for _, said := range r.Said {
			fmt.Fprintf(&b, "- %s\n", said)
		}
		if len(r.Why) > 0 {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.Join(r.Why, "\n"))
		}
	}
	return os.WriteFile(filepath.Join(s.folder, "soak.md"), []byte(b.String()), 0o644)
}

// goTest runs tests of e2e/crash.
func goTest(ctx context.Context, tests string, length time.Duration, read func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=0", "-run="+tests, "./e2e/crash")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env, cmd.Stderr = append(os.Environ(), "PAWL_SOAK="+length.String()), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(read(out), cmd.Wait())
}
