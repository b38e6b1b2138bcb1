package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/brokers"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/report"
	"github.com/pawl-dev/pawl/bench/internal/rounds"
)

// Config says what to run and where.
type Config struct {
	Scale             plan.Scale
	Suite, Work, Arm  string // empty: all
	Rounds            int    // 0: those of the scale
	Postgres          string // URL of a server, by a user who may create databases; the arms are this user
	PostgresAdmin     string // by a superuser, for the meter; empty: Postgres is one
	Kafka             string // addresses of brokers, HOST:PORT, with commas between them
	Services          string // path of dev/services, which fetches the jars of peers
	Out               string // folder of the JSON lines
	Profile           string // folder of CPU and heap profiles, one for each arm and round; empty: none
	Timeout           time.Duration
	Stdout, Stderr    io.Writer
	suiteWorks        []plan.Work
	versions, servers map[string]string
	server, admin     Server
	scratch           string
	brokers           *brokers.Brokers
	jars              string   // of Parallel Consumer
	left              []string // arms that this machine cannot run, and why
}

// Run measures everything that c selects, interleaved: work by work, round by
// round, every arm in each round, in an order that turns with the round.
// Slowness is never an error; an arm that fails is, after the others had their
// turn.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.clean(context.WithoutCancel(ctx))) }()
	c.header()
	var lines []*report.Line
	var failed []error
	for _, w := range c.suiteWorks {
		for round := range cmp.Or(c.Rounds, c.Scale.Rounds()) {
			for _, arm := range c.turn(w.Arms, round) {
				l, err := c.one(ctx, w, arm, round+1)
				if ctx.Err() != nil {
					return errors.Join(context.Cause(ctx), c.table(lines))
				}
				if err != nil {
					failed = append(failed, fmt.Errorf("%s/%s %s round %d: %w", w.Suite, w.Name, arm, round+1, err))
					fmt.Fprintln(c.Stderr, "  failed:", failed[len(failed)-1])
					continue
				}
				lines = append(lines, l)
			}
		}
	}
	return errors.Join(append(failed, c.table(lines))...)
}

// turn rotates the arms by the round, so that none is always first.
func (c *Config) turn(arms []string, round int) []string {
	if c.Arm != "" {
		return []string{c.Arm}
	}
	return rounds.Turn(arms, round)
}

func (c *Config) prepare(ctx context.Context) (err error) {
	for _, w := range plan.Works(c.Scale) {
		if (w.Suite == c.Suite || c.Suite == "" && (c.Scale == plan.Full || !plan.OnKafka(w.Suite))) &&
			(c.Work == "" && !w.NamedOnly || w.Name == c.Work) &&
			(c.Arm == "" || slices.Contains(w.Arms, c.Arm)) {
			c.suiteWorks = append(c.suiteWorks, w)
		}
	}
	if len(c.suiteWorks) == 0 {
		return fmt.Errorf("nothing is called that: suite %q, work %q, arm %q at scale %s", c.Suite, c.Work,
			c.Arm, c.Scale)
	}
	c.versions = versions()
	if c.Profile != "" {
		if err := os.MkdirAll(c.Profile, 0o755); err != nil {
			return fmt.Errorf("create the folder of profiles: %w", err)
		}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("create the folder of results: %w", err)
	}
	if c.scratch, err = os.MkdirTemp(c.Out, "scratch-"); err != nil {
		return fmt.Errorf("create a folder for SQLite files: %w", err)
	}
	if slices.ContainsFunc(c.suiteWorks, func(w plan.Work) bool { return w.Suite == plan.Postgres }) {
		if err := c.prepareServer(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.suiteWorks, func(w plan.Work) bool { return plan.OnKafka(w.Suite) }) {
		return c.prepareKafka(ctx)
	}
	return nil
}

func (c *Config) prepareServer(ctx context.Context) (err error) {
	if c.Postgres == "" {
		return errors.New("no PostgreSQL server: set PAWL_TEST_POSTGRES, or start one with dev/services run -- COMMAND")
	}
	if c.server.At, err = url.Parse(c.Postgres); err != nil {
		// never print it: it may hold a password
		return errors.New("read PAWL_TEST_POSTGRES: it is not a postgres:// URL")
	}
	if c.admin.At, err = url.Parse(cmp.Or(c.PostgresAdmin, c.Postgres)); err != nil {
		return errors.New("read PAWL_TEST_POSTGRES_ADMIN: it is not a postgres:// URL")
	}
	if c.servers, err = c.admin.facts(ctx); err != nil {
		return err
	}
	c.versions["postgres"] = c.servers["server_version"]
	return c.admin.Create(ctx, meterDatabase, "pg_walinspect")
}

func (c *Config) clean(ctx context.Context) error {
	err := os.RemoveAll(c.scratch)
	if c.admin.At != nil {
		err = errors.Join(err, c.admin.Drop(ctx, meterDatabase))
	}
	if c.brokers != nil {
		err = errors.Join(err, c.brokers.Clean(ctx))
		c.brokers.Close()
	}
	return err
}

// one runs one arm through one work once, in a child process with a database of
// its own, and notes its line.
func (c *Config) one(ctx context.Context, w plan.Work, arm string, round int) (_ *report.Line, err error) {
	t := Task{Suite: w.Suite, Work: w.Name, Arm: arm, Round: round, Scale: c.Scale, Profile: c.Profile}
	switch {
	case plan.OnKafka(w.Suite):
		t.Target, t.Jars = c.Kafka, c.jars
	case w.Suite == plan.Postgres:
		t.Database = "pawlbench_" + strings.ReplaceAll(arm, "-", "_")
		t.Target, t.MeterDSN = c.server.Address(t.Database), c.admin.Address(meterDatabase)
		if err := c.server.Create(ctx, t.Database); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.server.Drop(context.WithoutCancel(ctx), t.Database)) }()
	default:
		dir, err := os.MkdirTemp(c.scratch, arm+"-")
		if err != nil {
			return nil, fmt.Errorf("create a folder for %s: %w", arm, err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		t.Target = filepath.Join(dir, "bench.db")
	}
	began := time.Now()
	l, err := c.child(ctx, t)
	if err != nil {
		return nil, err
	}
	l.Versions = c.versions
	fmt.Fprintf(c.Stderr, "  %s/%s round %d %-23s %9.0f jobs/s  (%.1f s)\n",
		w.Suite, w.Name, round, arm, l.PerSecond, time.Since(began).Seconds())
	return l, report.Append(c.Out, l)
}

func (c *Config) child(ctx context.Context, t Task) (*report.Line, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	task, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode the task: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "child")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(task), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the arm: %w: %s", cmp.Or(context.Cause(ctx), err), lastOf(errs.Bytes()))
	}
	l := &report.Line{}
	if err := json.Unmarshal(out.Bytes(), l); err != nil {
		return nil, fmt.Errorf("read the arm's result: %w", err)
	}
	return l, nil
}

// lastOf cuts what a child said to its end, where the reason is.
func lastOf(said []byte) []byte {
	const enough = 4 << 10
	return bytes.TrimSpace(said[max(0, len(said)-enough):])
}

// table prints what there is at the end.
func (c *Config) table(lines []*report.Line) error {
	return report.Table(c.Stdout, c.suiteWorks, lines)
}

func (c *Config) header() {
	show := func(what string, m map[string]string) {
		fmt.Fprintf(c.Stdout, "%s:", what)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(c.Stdout, " %s=%s", k, m[k])
		}
		fmt.Fprintln(c.Stdout)
	}
	show("versions", c.versions)
	if c.servers != nil {
		show("server", c.servers)
	}
	fmt.Fprintf(c.Stdout, "load average before the run: %s on %d CPUs\ndisk: %s\n", busy(), runtime.NumCPU(),
		probe(c.scratch))
	for _, why := range c.left {
		fmt.Fprintf(c.Stdout, "LEFT OUT: %s\n", why)
	}
	if slices.ContainsFunc(c.suiteWorks, func(w plan.Work) bool { return !plan.OnKafka(w.Suite) }) {
		c.headerOfJobs()
	}
}

func (c *Config) headerOfJobs() {
	fmt.Fprintf(c.Stdout, "every arm: payload %d B, append batches of %d, %d producers (keyed: 1), no-op handlers\n",
		plan.PayloadBytes, plan.AppendBatch, plan.AppendProducers)
	if c.servers["fsync"] == "off" || c.servers["synchronous_commit"] == "off" {
		fmt.Fprintln(c.Stdout,
			"NOTE: this server does not wait for the disk; the figures say nothing about durable work")
	}
}
