package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/cli/manual"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/store"
)

// workFlags are the flags of work.
type workFlags struct {
	exec, pipe            string
	concurrency, inFlight int
	lease, deadline       flag.Duration
	drain                 flag.Duration
	limit                 flag.Rate
	order                 string
	untilEmpty            bool
}

func (s *session) work() *cobra.Command {
	f := workFlags{concurrency: runtime.NumCPU(), lease: flag.Duration(dispatch.DefaultLease),
		drain: flag.Duration(dispatch.DefaultDrainTimeout)}
	c := &cobra.Command{
		Use: "work TOPIC… (--exec CMD | --pipe CMD)", Short: "Process messages with a program in any language",
		Args: count(1, -1, "topics"),
		Long: `Processes messages until it is stopped. The first SIGTERM or Ctrl-C drains: what is
running may finish, for as long as --drain says. The second one ends at once; what was
running is claimed again elsewhere. Programs never outlive this process.

--exec starts CMD for every delivery, with the shell. The body is on its stdin; in
its environment are PAWL_ID PAWL_TOPIC PAWL_KEY PAWL_ATTEMPT PAWL_LAST_ATTEMPT
PAWL_DEADLINE PAWL_TOKEN PAWL_TRACEPARENT, and PAWL_HEADERS as JSON; over Kafka PAWL_LOG,
too. Its exit code is the verdict:

  0   ack       done
  75  retry     again, after a backoff
  65  dead      to the dead letters
  69  release   again in a second; no attempt is counted
  other, or a signal: retry, for a day (over Kafka: 10 attempts); then dead

The last lines on its stderr are the reason. What it writes to stdout is passed on to
stdout (with -o json to stderr, because stdout has the summary). If that cannot be
written, because the disk is full or nobody reads it, the output is lost and work
continues: the verdicts do not change.

--pipe starts CMD --concurrency times and keeps it. CMD reads a line of JSON per
delivery: {"id","topic","key","attempt","last_attempt","deadline","token","headers",
"body" | "body_base64"} and answers each with a line:
{"id","token","verdict":"ack|retry|dead|release"}, and optionally "reason","kind",
"class":"transient|throttled|permanent","attrs":{name: value…},"after_seconds",
"hold_seconds","emit":[message…]. Any other line on its stdout is taken for its log, as
all of its stderr is. Answers may come in any order. Over Kafka a delivery also has
"log": partition, offset, timestamp, null_body, and all headers. Messages of one key are
handed over one at a time. A retry comes after after_seconds at the earliest, and later if the policy's
backoff is longer. A CMD that dies is started again; what it held is retried. If it
held several, they are first handed over one by one, to find the one that kills it.

Overrides of the policy in pawl.yaml apply here, too. --deadline and --order are
settings of the topic, kept in the store: they hold for all workers, and the newest
declaration counts. A topic with messages keeps its order: a worker with another one does
not start (exit code 5).`,
		Example: `  pawl send mail "hello"; pawl work mail --exec 'cat >> mail.txt' --until-empty
  pawl work mail --exec 'echo "no: $PAWL_ID" >&2; exit 65' --until-empty
  pawl work mail --pipe 'python3 -u worker.py' --concurrency 4   # runs until it is stopped`,
		RunE: func(c *cobra.Command, topics []string) error {
			if c.Flags().Changed("deadline") && f.deadline <= 0 {
				return usage("leave it out to keep what the topic has", "--deadline is %v", time.Duration(f.deadline))
			}
			s.unblock() // programs and messages must not wait for readers of the output
			config, err := s.workConfig(topics, &f)
			if err != nil {
				return err
			}
			m, err := s.matrix()
			if err != nil {
				return err
			}
			config.Policy = m
			return s.runWork(c.Context(), config)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.exec, "exec", "", "start `CMD` for every delivery")
	fl.StringVar(&f.pipe, "pipe", "", "keep `CMD` running and exchange lines of JSON with it")
	fl.IntVar(&f.concurrency, "concurrency", f.concurrency, "programs at once")
	_ = fl.SetAnnotation("concurrency", manual.DefaultAs, []string{"the number of processors"}) // the flag is there
	fl.IntVar(&f.inFlight, "in-flight", 0,
		"with --pipe: deliveries that a program holds at once (0: as many as it turns out to use)")
	fl.Var(&f.lease, "lease", "how long messages stay claimed if this process dies")
	fl.Var(&f.deadline, "deadline", "how long a delivery may take at most; a setting of the topic")
	fl.Var(&f.limit, "limit", "claim no faster than this, such as 100/s or 30/m")
	fl.StringVar(&f.order, "order", "", "key or none; a setting of the topic")
	fl.BoolVar(&f.untilEmpty, "until-empty", false, "end when nothing is waiting, delayed or leased any more")
	fl.Var(&f.drain, "drain", "how long running work may take to finish after the first signal")
	return c
}

// workConfig checks the flags.
func (s *session) workConfig(topics []string, f *workFlags) (serve.WorkConfig, error) {
	bad := func(next, why string, args ...any) (serve.WorkConfig, error) {
		return serve.WorkConfig{}, usage(next, why, args...)
	}
	for _, t := range topics {
		if err := pawl.ValidTopic(t); err != nil {
			return bad("correct it", "%w", err)
		}
	}
	command := f.exec + f.pipe
	switch {
	case (f.exec == "") == (f.pipe == ""):
		return bad("such as --exec 'cat' or --pipe 'python3 -u worker.py'", "--exec or --pipe is required")
	case len(unique(topics)) != len(topics):
		return bad("name each topic once", "a topic is named twice")
	case f.concurrency < 1 || f.concurrency > 10_000:
		return bad("use a number from 1 to 10000", "--concurrency is %d", f.concurrency)
	case f.inFlight < 0 || f.inFlight > pipe.MaxInFlight:
		return bad("use a number from 1, or 0 to leave it to Pawl",
			"--in-flight is %d; at most %d is possible", f.inFlight, pipe.MaxInFlight)
	case time.Duration(f.lease) < 20*time.Millisecond || time.Duration(f.lease) > store.MaxLease:
		return bad("use a duration from 20ms to 24h", "--lease is %v", time.Duration(f.lease))
	case f.limit.Text != "" && (f.limit.PerSecond < config.LeastRate || f.limit.PerSecond > config.MostRate):
		return bad("use a rate from 1/10000s to 1000000/s, or leave it out for no limit", "--limit is %s", f.limit.Text)
	case f.inFlight > 0 && f.pipe == "":
		return bad("leave it out", "--in-flight needs --pipe")
	}
	declared := store.Declaration{Name: topics[0], Order: store.Order(f.order), Deadline: time.Duration(f.deadline)}
	if err := declared.Validate(); err != nil {
		return bad("correct the flag", "--%w", err)
	}
	if name := missingProgram(command); name != "" {
		return bad("install it, or correct its path", "there is no program %q", name)
	}
	return serve.WorkConfig{
		Topics: topics, Exec: f.exec, Pipe: f.pipe, Concurrency: f.concurrency, InFlight: f.inFlight,
		Lease:    time.Duration(f.lease),
		Declared: declared, PerSecond: f.limit.PerSecond, UntilEmpty: f.untilEmpty, Drain: time.Duration(f.drain),
		Owner: serve.Owner("", time.Now()), Version: s.version,
		Stdout: s.programOutput(), Stderr: s.Err, Logger: s.logger(slog.LevelInfo),
	}, nil
}

// plainWord is a command's first word that names a program and nothing else.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)

// missingProgram returns the program that a command begins with, if the shell
// knows none of that name: better to say so before a message is claimed for it.
func missingProgram(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 || !plainWord.MatchString(words[0]) {
		return ""
	}
	if err := exec.Command("/bin/sh", "-c", `command -v -- "$1" >/dev/null`, "sh", words[0]).Run(); err == nil {
		return ""
	} else if _, ran := errors.AsType[*exec.ExitError](err); !ran {
		return "" // there is no such shell here
	}
	return words[0]
}

// programOutput is where what programs print goes: to stdout, unless a summary
// goes there.
func (s *session) programOutput() io.Writer {
	if s.output != formatTable {
		return s.Err
	}
	return s.Out
}

// logger logs on stderr, from a level on.
func (s *session) logger(level slog.Level) *slog.Logger {
	if s.quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(redacting{s}, &slog.HandlerOptions{Level: level, ReplaceAttr: shortLog}))
}

// warnings is the logger for stores.
func (s *session) warnings() *slog.Logger { return s.logger(slog.LevelWarn) }

// shortLog omits the date, which collectors of logs add.
func shortLog(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// redacting is stderr for lines that may quote a URL.
type redacting struct{ s *session }

func (r redacting) Write(b []byte) (int, error) {
	_, err := io.WriteString(r.s.Err, r.s.redactor.Redact(string(b)))
	return len(b), err
}

// runWork works and tells what was done.
func (s *session) runWork(ctx context.Context, c serve.WorkConfig) error {
	opened, err := s.openOrMake(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	c.Tracer = s.tracer
	if s.dryRun {
		s.note("would process %s with %d programs at once", strings.Join(c.Topics, ", "), c.Concurrency)
		return nil
	}
	var done serve.Worked
	draining := func() { s.note("draining; a second signal ends at once") }
	if err != nil { // it was asked to stop
		s.note("stopped before the store could be reached")
		err = nil
	} else {
		err = s.runUntilDrained(ctx, draining, func() (err error) {
			done, err = serve.Work(ctx, opened, c)
			return err
		})
	}
	if err == nil && c.UntilEmpty && ctx.Err() != nil || errors.Is(err, dispatch.ErrAsked) {
		err = &problem{code: exitUnfinished, what: "the topics may not be empty", err: ErrInterrupted,
			next: "run it again: it goes on where this one stopped"}
	}
	if s.output != formatTable {
		return errors.Join(cannot(err, "work"), s.one(done, nil))
	}
	s.note("%s", summary(&done))
	return cannot(err, "work")
}

// runUntilDrained runs a worker, and says when it drains.
func (s *session) runUntilDrained(ctx context.Context, draining func(), run func() error) error {
	defer context.AfterFunc(ctx, draining)()
	err := run()
	if errors.Is(err, dispatch.ErrStuck) {
		return &problem{code: exitUnfinished, what: "not everything ended", err: err,
			next: "what was running is claimed again when its lease ends"}
	}
	return err
}

func summary(w *serve.Worked) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d acked, %d retried, %d dead, %d released in %s", w.Acked, w.Retried, w.Dead, w.Released,
		asDuration(w.ElapsedSeconds).Round(time.Millisecond))
	for _, extra := range []struct {
		n    int
		what string
	}{{int(w.Lost), "leases lost"}, {w.Restarts, "programs started again"}, {w.StaleVerdicts, "verdicts about nothing"},
		{w.BadVerdicts, "bad verdicts"}, {w.StrayLines, "lines that are not verdicts"}} {
		if extra.n > 0 {
			fmt.Fprintf(&text, ", %d %s", extra.n, extra.what)
		}
	}
	return text.String()
}

func (s *session) workers() *cobra.Command {
	return noun("workers", "Show who processes messages",
		`A worker is a process that carries messages out: one of pawl work, of pawl up, or a
program of yours with the library.`,
		s.workersLs(), s.workersDrain())
}

func (s *session) workersDrain() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "drain WORKER", Short: "Ask a worker to end in good order", Args: count(1, 1, "one worker"),
		Long: `Asks a worker to drain, as SIGTERM does: within five seconds it claims nothing more,
running work may finish, the rest is given back, and its process ends. A service manager
that starts it again gets a new worker. A daemon ends with all of its topics.`,
		Example: `  pawl workers drain "$(pawl workers ls -o json | jq -r '.[0].owner')" --reason "new kernel" # needs a worker`,
		RunE: with(s, "drain a worker", func(c *cobra.Command, args []string, opened store.Store) error {
			if s.dryRun {
				s.note("would ask worker %s to drain", args[0])
				return nil
			}
			if err := operate.Drain(c.Context(), opened, args[0], s.who()); err != nil {
				return cannot(err, "drain worker %s", args[0])
			}
			s.note("worker %s is asked to drain", args[0])
			return s.audit(c.Context(), operate.AuditEntry{Action: "workers drain", Target: args[0], Reason: reason,
				Count: 1, Result: operate.AuditResult{Done: 1}})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, for the audit")
	return c
}

func (s *session) workersLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List workers, and what they hold", Args: count(0, 0, "arguments"),
		Long: `Lists the workers of this store: what each one processes, how busy it is, which limit
holds it back, and how many messages it has been holding, and for how long.

A worker registers itself and reports every few seconds, a program with the library as
well. One that has not reported for 20 seconds counts as gone: its messages are
claimable again when its leases end. A program that has switched that off
(dispatch.Config.Unregistered) is listed by what it holds.`,
		Example: `  pawl workers ls
  pawl workers ls -o json`,
		RunE: with(s, "list workers", func(c *cobra.Command, _ []string, opened store.Store) error {
			workers, err := operate.Workers(c.Context(), opened)
			if err != nil {
				return cannot(err, "list workers")
			}
			l := s.list("WORKER", "STATE", "TOPICS", ">RUNNING", ">PER SECOND", ">HOLDS", ">OLDEST",
				"LIMITED BY", "SINCE")
			for i := range workers {
				w := &workers[i]
				topics, running, rate, limited := busy(w)
				since := ""
				if w.Registration != nil {
					since = s.at(w.StartedAt)
				}
				l.add(w, w.Owner, workerState(w), topics, running, rate, number(w.Leased),
					age(asDuration(w.OldestLeaseSeconds)), limited, since)
			}
			return l.end("no workers are known; start one: pawl work TOPIC --exec CMD")
		}),
	}
}

func workerState(w *operate.Worker) string {
	switch {
	case w.Alive == nil:
		return "holds leases"
	case !*w.Alive:
		return "gone"
	case w.Draining:
		return "draining"
	default:
		return "alive"
	}
}

// busy sums up what a worker does in its topics.
func busy(w *operate.Worker) (topics, running, rate, limited string) {
	var names, limits []string
	if w.Registration == nil {
		for _, h := range w.LeasedFrom {
			names = append(names, h.Topic)
		}
		return strings.Join(names, " "), "", "", ""
	}
	var inside, slots int
	var perSecond float64
	for _, t := range w.Topics {
		names = append(names, t.Topic)
		inside, slots, perSecond = inside+t.Running, slots+t.Concurrency, perSecond+t.PerSecond
		if t.LimitedBy != "" {
			limits = append(limits, t.LimitedBy)
		}
	}
	return strings.Join(names, " "), fmt.Sprintf("%d/%d", inside, slots), fmt.Sprintf("%.1f", perSecond),
		strings.Join(unique(limits), " ")
}
