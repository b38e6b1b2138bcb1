package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// Verdict is what a check of the doctor found.
type Verdict string

// The verdicts.
const (
	Well    Verdict = "ok"
	Worth   Verdict = "warn" // worth a look
	Ill     Verdict = "fail" // something does not work, or will not for long
	Unknown Verdict = "skip" // it could not be looked at
)

// Finding is a line of the doctor, as JSON.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"`
	// Runbook names the page of the runbook about it; empty: there is none, or nothing is wrong.
	Runbook string `json:"runbook,omitempty"`
	// Message is the id of a message that it is about; empty: it is about none in particular.
	Message string `json:"message,omitempty"`
}

// Limits beyond which the doctor speaks.
const (
	clockWarn   = 2 * time.Second
	clockFail   = 30 * time.Second
	replyWarn   = 200 * time.Millisecond
	spaceWarn   = 1 << 30
	spaceFail   = 100 << 20
	filesWarn   = 1024
	unservedFor = time.Minute
	oldestWarn  = 5 * time.Minute
	oldestFail  = time.Hour
	wentBackFor = 24 * time.Hour   // for which that is said
	deadlineDoc = 10 * time.Second // for each look at the store
)

// Doctor looks at a store, at this machine and at the workers, and says what is
// wrong and what to do about it.
type Doctor struct {
	Open open.Config
	// Mirror is the URL of the store to which topics move; empty: none is named.
	Mirror string
	// Config, if not nil, checks the configuration.
	Config func() Finding

	found []Finding
	steps []store.Migration // of the schema, if the store has one

	moving  map[string]*mirror.Plan // topics that have to do with another store
	results map[string]bool         // topics that a program reads from beginning to end
}

// Examine does all checks; those that need what an earlier one missed are left out.
// It returns the store to be closed, if there is one.
func (d *Doctor) Examine(ctx context.Context) ([]Finding, store.Store) {
	if d.Config != nil {
		d.found = append(d.found, d.Config())
	}
	s := d.reach(ctx)
	d.encrypted()
	d.disk()
	d.files()
	if s == nil || d.ill("store") {
		return d.found, s
	}
	if d.schema() {
		d.clock(ctx, s)
		d.plans(ctx, s)
		d.topics(ctx, s)
	}
	return d.found, s
}

func (d *Doctor) say(check string, v Verdict, fix, detail string, args ...any) {
	d.tell("", check, v, fix, detail, args...)
}

// tell is say about what a page of the runbook is about.
func (d *Doctor) tell(runbook, check string, v Verdict, fix, detail string, args ...any) {
	if v == Well {
		fix, runbook = "", ""
	}
	d.found = append(d.found, Finding{Check: check, Verdict: v, Detail: fmt.Sprintf(detail, args...), Fix: fix,
		Runbook: runbook})
}

// about says which message was told of last.
func (d *Doctor) about(id string) { d.found[len(d.found)-1].Message = id }

// ill reports whether a check found that something does not work.
func (d *Doctor) ill(check string) bool {
	return slices.ContainsFunc(d.found, func(f Finding) bool { return f.Check == check && f.Verdict == Ill })
}

// reach opens the store. An embedded one that is not there is not made for this.
func (d *Doctor) reach(ctx context.Context) store.Store {
	const check = "store"
	if d.Open.URL == "" {
		d.say(check, Unknown, "", "the configuration does not name one")
		return nil
	}
	url := redact.URL(d.Open.URL)
	if path := open.File(d.Open.URL); path != "" {
		if _, err := os.Stat(path); err != nil {
			d.say(check, Ill, "name the store with --store or PAWL_STORE; `pawl send` makes a new one",
				"%s: there is no such file", path)
			return nil
		}
	}
	c := d.Open
	c.NoCheck, c.Look, c.Existing = true, true, true // it changes nothing, whatever the schema is
	ctx, cancel := context.WithTimeout(ctx, deadlineDoc)
	defer cancel()
	began := time.Now()
	s, err := open.Open(ctx, c)
	if err == nil {
		err = d.ask(ctx, s)
	}
	if err != nil {
		d.tell("PawlStoreErrors", check, Ill, d.remedy(err), "%s: %s", url, brief(err))
		return s
	}
	d.say(check, Well, "", "%s opened in %v", url, time.Since(began).Round(time.Millisecond))
	return s
}

// remedy is what to do about a store that cannot be opened. Where it is a file, no
// server is to blame.
func (d *Doctor) remedy(err error) string {
	if open.File(d.Open.URL) == "" && !errors.Is(err, store.ErrUnsupported) { // of a pooler the error knows more
		return "see that the server runs, that its address and password are right, and that it can be reached from here"
	}
	return advice(err,
		"see that the path is right, that it is a file, and that this user may read and write it and its folder")
}

// advice is what an error itself advises, or else that.
func advice(err error, or string) string { return cmp.Or(store.Hint(err), or) }

// ask asks the store something that it can tell whatever its schema is.
func (d *Doctor) ask(ctx context.Context, s store.Store) (err error) {
	if d.steps, err = reached(ctx, s); err != nil {
		return err
	}
	path := open.File(d.Open.URL)
	if path == "" {
		return nil
	}
	// It is open for reading, and those who work with it have to write. Only the rights
	// are asked for: closing the file would drop the locks that the store has on it.
	if err := writable(path); err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	if err := writable(filepath.Dir(path)); err != nil {
		return fmt.Errorf("no file can be created next to it: %w", err)
	}
	return nil
}

// pinger is a store whose Clock is that of this machine, so that Clock does not show
// whether a server answers.
type pinger interface {
	Ping(ctx context.Context) error
}

// reached makes a call that a store cannot answer by itself, without a look at its
// schema: what that is, or whether its server is there.
func reached(ctx context.Context, s store.Store) ([]store.Migration, error) {
	if m, ok := store.As[store.Migrator](s); ok {
		return m.Migrations(ctx)
	}
	if k, ok := store.As[pinger](s); ok {
		return nil, k.Ping(ctx)
	}
	return nil, nil
}

// brief is an error in one line.
func brief(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(strings.TrimSpace(line), ":")
}

func (d *Doctor) schema() bool {
	const check = "schema"
	if len(d.steps) == 0 {
		return true
	}
	if last := d.steps[len(d.steps)-1]; last.Newer {
		d.say(check, Ill, "use a newer version of this program", "it is at version %d, which this program does not know",
			last.Version)
		return false
	}
	missing := 0
	for _, step := range d.steps {
		if step.AppliedAt.IsZero() {
			missing++
		}
	}
	if missing > 0 {
		v, fix := Ill, "run `pawl migrate up`"
		if open.File(d.Open.URL) != "" {
			v, fix = Worth, "run `pawl migrate up`; any process that opens the store to work with it does the same"
		}
		d.say(check, v, fix, "%d of %d steps are not applied", missing, len(d.steps))
		return false
	}
	d.say(check, Well, "", "up to date, version %d", len(d.steps))
	return true
}

// clock compares the store's clock with that of this machine. Nothing in Pawl
// does: but logs of two machines that disagree are hard to read.
func (d *Doctor) clock(ctx context.Context, s store.Store) {
	const check = "clock"
	entries, ok := store.As[store.Shared](s)
	if !ok {
		d.say(check, Unknown, "", "this store does not report its time")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deadlineDoc)
	defer cancel()
	began := time.Now()
	k, local := store.As[pinger](s)
	var err error
	theirs := began
	if local {
		err = k.Ping(ctx)
	} else {
		theirs, err = entries.Clock(ctx)
	}
	if err != nil {
		d.say(check, Ill, advice(err, "run `pawl doctor` again; if it happens again, look at the server's log"), "%s",
			brief(err))
		return
	}
	took := time.Since(began)
	d.tell("PawlStoreSlow", "latency", over(took, replyWarn, math.MaxInt64),
		"look at the network and the load of the server",
		"the store answers in %v", max(took.Round(time.Millisecond), time.Millisecond))
	if local {
		d.say(check, Unknown, "", "this store uses the clock of each machine")
		return
	}
	off := theirs.Sub(began.Add(took / 2)).Abs().Round(time.Millisecond)
	d.say(check, over(off, clockWarn, clockFail),
		"synchronise both clocks with NTP: times in logs and listings are misleading. Deliveries count by the store's clock; "+
			"where that is set back, nothing ends later than 10 s after it would have; set forward, it ends sooner by the step",
		"the store's clock and this one are %v apart", off)
}

// over is the verdict on what is the worse the larger it is.
func over[N cmp.Ordered](n, warn, fail N) Verdict {
	switch {
	case n > fail:
		return Ill
	case n > warn:
		return Worth
	}
	return Well
}

// encrypted looks whether others can read what is sent to the store.
func (d *Doctor) encrypted() {
	if why := open.Plain(d.Open.URL); why != "" {
		d.say("encryption", Worth, "add sslmode=verify-full, or at least sslmode=require, to the URL", "%s", why)
	}
}

func (d *Doctor) disk() {
	const check = "disk"
	path := open.File(d.Open.URL)
	if path == "" {
		return
	}
	free, err := freeSpace(filepath.Dir(path))
	if err != nil {
		d.say(check, Unknown, "", "%v", err)
		return
	}
	d.say(check, over(-float64(free), -spaceWarn, -spaceFail), "make room: without it appends fail, and nothing is lost",
		"%.2f GB are free where the store is", float64(free)/(1<<30))
}

func (d *Doctor) files() {
	const check = "files"
	limit, err := openFiles()
	switch {
	case err != nil:
		d.say(check, Unknown, "", "%v", err)
	case limit < filesWarn:
		d.say(check, Worth, "raise it: `ulimit -n 65536`, or LimitNOFILE= in the unit",
			"a process may open %d files; programs and connections need more", limit)
	default:
		d.say(check, Well, "", "a process may open %d files; %d processors", limit, runtime.NumCPU())
	}
}

// topics looks at what waits, and who is there to carry it out.
func (d *Doctor) topics(ctx context.Context, s store.Store) {
	ctx, cancel := context.WithTimeout(ctx, 3*deadlineDoc)
	defer cancel()
	t, ok := store.As[store.Topics](s)
	if !ok {
		return
	}
	stats, err := t.Stats(ctx)
	if err != nil {
		d.say("topics", Ill, advice(err, "run `pawl topics ls`"), "%s", brief(err))
		return
	}
	served := d.workers(ctx, s)
	for i := range stats {
		d.topic(ctx, s, &stats[i], served)
	}
	if len(stats) == 0 {
		d.say("topics", Well, "", "there are none yet")
	}
}

// topic says everything that is found of a topic, a line each: what is behind one
// finding must not have to wait until that is dealt with.
func (d *Doctor) topic(ctx context.Context, s store.Store, t *store.TopicStats, served map[string]bool) {
	check := "topic " + t.Name
	if d.results[t.Name] {
		d.say(check, Well, "", "%d results, which their program reads", t.Waiting)
		return
	}
	oldest := t.OldestWaiting.Round(time.Second)
	before := len(d.found)
	moved := d.moved(t)
	if t.Paused != nil && !moved {
		d.tell("PawlTopicPaused", check, Worth, "pawl topics resume "+t.Name,
			"paused by %s since %s%s; %d waiting",
			t.Paused.By, operate.UTC(t.Paused.Since), operate.Because(t.Paused.Reason), t.Waiting)
	}
	const slow = "more workers or concurrency; `pawl workers ls` shows what limits them, `pawl explain ID` what holds one up"
	switch {
	case moved && (t.Paused != nil || d.moving[t.Name].Stage != mirror.Draining): // no worker is expected here
	case t.Waiting > 0 && served != nil && !served[t.Name] && t.Leased == 0:
		v := Ill
		if t.OldestWaiting < unservedFor {
			v = Worth
		}
		d.tell("PawlTopicUnserved", check, v, operate.StartWorker(t.Name),
			"%d waiting, the oldest for %v, and no worker is known to serve the topic", t.Waiting, oldest)
	case t.Paused != nil: // that is why they wait
	case d.backlog(ctx, s, t): // its findings say what holds them up
	case t.OldestWaiting > oldestWarn:
		d.tell("PawlBacklogOld", check, over(t.OldestWaiting, oldestWarn, oldestFail), slow,
			"the oldest of %d has been waiting for %v", t.Waiting, oldest)
	}
	if t.Dead > 0 {
		d.tell("PawlDeadLetters", check, Worth, "pawl dead ls --topic "+t.Name+" --group-by fingerprint",
			"%s", operate.Counted(t.Dead, "dead letter"))
	}
	if served == nil && t.Waiting > 0 && t.Leased == 0 && len(d.found) == before {
		d.say(check, Unknown, "", "%d waiting; whether a worker serves the topic is unknown", t.Waiting)
	}
	if len(d.found) == before {
		d.say(check, Well, "", "%d waiting, %d delayed, %d leased, no dead letters", t.Waiting, t.Delayed,
			t.Leased)
	}
}

// workers looks at who is there, and returns the topics that somebody carries out; nil
// if that cannot be told. Who drains claims nothing more.
func (d *Doctor) workers(ctx context.Context, s store.Store) map[string]bool {
	const check = "workers"
	served := map[string]bool{}
	d.results = map[string]bool{}
	workers, err := operate.Workers(ctx, s)
	if err != nil {
		d.say(check, Unknown, "", "the workers cannot be listed: %s", brief(err))
		return nil
	}
	alive, gone, zombies, draining := 0, 0, 0, 0
	for i := range workers {
		w := &workers[i]
		if w.Registration != nil && w.StoreWentBackAt != nil && time.Since(*w.StoreWentBackAt) < wentBackFor {
			d.tell("PawlStoreWentBack", "store", Ill,
				"see docs/runbook/PawlStoreWentBack.md: senders must send again what was lost; find out why the server failed over to a copy that was behind",
				"it went back: %s noticed at %s that it is an older copy of itself, and what was sent and done before is lost",
				w.Owner, operate.UTC(*w.StoreWentBackAt))
		}
		switch {
		case w.Alive == nil:
			for _, h := range w.LeasedFrom {
				served[h.Topic] = true
			}
		case !*w.Alive:
			gone++
		default:
			alive++
			if w.Draining {
				draining++
			}
			for _, t := range w.Topics {
				served[t.Topic] = served[t.Topic] || !w.Draining
				d.results[t.Topic] = d.results[t.Topic] || t.ReadWhole
				zombies += t.Zombies
			}
		}
	}
	switch {
	case zombies > 0:
		d.tell("PawlZombies", check, Worth,
			"find out why these handlers ignore their context; until they return, they use memory and CPU",
			"%s", operate.Counted(zombies, "handler outlived its deadline", "handlers outlived their deadline"))
	case gone > 0:
		d.tell("PawlDown", check, Worth,
			"nothing, if you stopped them; what they held is claimed again when its lease ends. Otherwise look at their logs",
			"%d alive, %d disappeared without deregistering within the last hour", alive, gone)
	case draining > 0:
		d.say(check, Well, "", "%d alive, %d of them are draining and claim nothing", alive, draining)
	default:
		d.say(check, Well, "", "%d alive", alive)
	}
	return served
}

// Problems counts what is not well.
func Problems(found []Finding) (n int) {
	for _, f := range found {
		if f.Verdict == Worth || f.Verdict == Ill {
			n++
		}
	}
	return n
}
