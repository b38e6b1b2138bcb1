package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// faulty has a fault in every line that ends with a comment, which names the
// column, the path and the message.
const faulty = `store: oracle://db              # 8 store: is not the URL of a store
listen: 0.0.0.0:9102                # 9 listen: 0.0.0.0 can be reached from other machines
logger: {level: inof}               # 17 logger.level: must be debug, info, warn, error or critical (got "inof"); did you mean info?
drian: 30s                          # 1 drian: unknown key; did you mean drain?
console: {color: "#12"}           # 18 console.color: is no color
topics:
  mail:
    handler: exec
    command: ./mail
    concurrency: 0                  # 18 topics.mail.concurrency: must be at least 1 (got 0)
    deadline: soon                  # 15 topics.mail.deadline: must be a duration (got "soon")
    timeout: 3s                     # 5 topics.mail.timeout: goes with handler http, not with exec
    park: maybe                     # 11 topics.mail.park: must be true or false (got "maybe")
  hooks:
    handler: http
    url: ftp://example.com          # 10 topics.hooks.url: must be an http or https URL with a host
    deadline: 5s
    timeout: 6s                     # 14 topics.hooks.timeout: must be no longer than the deadline of 5s (got 6s)
    headers:
      Authorization: ${NOT_SET}     # 22 topics.hooks.headers.Authorization: NOT_SET is not set in the environment
      Pawl-Id: x                    # 7 topics.hooks.headers.Pawl-Id: is a header that Pawl sets itself
      idempotency-KEY: mine         # 7 topics.hooks.headers.idempotency-KEY: is a header that Pawl sets itself
      X-Tenant: one
      x-tenant: two                 # 7 topics.hooks.headers.x-tenant: is the same header as X-Tenant, in line 23; keep one of them
      Bad Name: x                   # 7 topics.hooks.headers.Bad Name: is not a valid header name
    concurrency: [1]                # 18 topics.hooks.concurrency: must be a whole number (got a list)
  nobody: {}                        # 3 topics.nobody: has no handler
  half: {handler: pipe}             # 3 topics.half: handler pipe needs a command
  mail: {handler: exec}             # 3 topics.mail: is there already, in line 7
  "a b": {handler: exec}            # 3 topics.a b: topic "a b" holds ' '
  idle:                             # 8 topics.idle: has no value
  octal: {handler: exec, command: x, concurrency: 010} # 51 topics.octal.concurrency: must be a whole number without a zero before it (got 010)
  reserve:
    handler: exec
    command: 'true'
    concurrency: 2
    reserved: 2                     # 15 topics.reserve.reserved: must leave at least one of 2 (got 2)
  both: {handler: exec, command: x, park: true, retry: {place: tail}} # 64 topics.both.retry.place: does not go with park (got tail)
  behind: {handler: exec, command: x, retry: {place: last}} # 54 topics.behind.retry.place: must be head or tail (got "last")
  soon: {handler: exec, command: x, retry: {backoff: {base: 1m, max: 1s}}} # 70 topics.soon.retry.backoff.max: must be no less than the base of 1m0s (got 1s)
policy:
  overrides:
    - match: {kind: Service}
      alert: info                   # 14 policy.overrides[0].alert: weaker
      backoff: {base: 1s, max: 1s}  # 32 policy.overrides[0].backoff.max: weaker
    - alert: error                  # 7 policy.overrides[1]: does not say which failures it applies to
`

func TestEveryFaultIsReportedAtItsPlace(t *testing.T) { faults(t, faulty) }

func TestACommandWithANUL(t *testing.T) {
	faults(t, `topics:
  a: {handler: exec, command: "true\0"} # 31 topics.a.command: holds a NUL
  b: {handler: pipe, command: "\0"}     # 31 topics.b.command: holds a NUL
`)
}

// TestATopicOfTheStoreItself is refused before anything runs, at the place of its name.
func TestATopicOfTheStoreItself(t *testing.T) {
	taken := func(url, topic string) (why, hint string) {
		if url == "sqlite:x.db" && strings.HasSuffix(topic, ".dead") {
			return "holds dead letters", "use another name"
		}
		return "", ""
	}
	text := "store: sqlite:x.db\ntopics:\n  mail: {handler: exec, command: x}\n  mail.dead: {handler: exec, command: x}\n"
	_, err := Load(Source{Path: "pawl.yaml", CheckTopic: taken, Text: []byte(text)})
	ps, _ := errors.AsType[Problems](err)
	if len(ps) != 1 || !strings.HasPrefix(ps[0].String(), "pawl.yaml:4:3: topics.mail.dead: holds dead letters; use another name") {
		t.Errorf("Load returned %v", err)
	}
	text = strings.Replace(text, "x.db", "y.db", 1)
	if _, err := Load(Source{Path: "pawl.yaml", CheckTopic: taken, Text: []byte(text)}); err != nil {
		t.Errorf("in another store: %v", err)
	}
}

func onlySQLite(url string) (why, hint string) {
	if !strings.HasPrefix(url, "sqlite:") {
		return "is not the URL of a store", "use sqlite:FILE"
	}
	return "", ""
}

// faults makes sure that Load reports what the comments of a file say, and nothing
// else.
func faults(t *testing.T, faulty string) {
	t.Helper()
	_, err := Load(Source{Path: "pawl.yaml", CheckStore: onlySQLite, Text: []byte(faulty)})
	ps, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("Load returned %v", err)
	}
	got := map[string]*Problem{}
	for i := range ps {
		got[fmt.Sprintf("%d:%d", ps[i].Line, ps[i].Column)] = &ps[i]
	}
	faults := 0
	for i, line := range strings.Split(faulty, "\n") {
		_, comment, found := strings.Cut(line, "# ")
		if !found {
			continue
		}
		faults++
		column, want, _ := strings.Cut(comment, " ")
		p := got[fmt.Sprintf("%d:%s", i+1, column)]
		if p == nil {
			t.Errorf("line %d, column %s: nothing is reported, want %q", i+1, column, want)
			continue
		}
		if prefix := fmt.Sprintf("pawl.yaml:%d:%s: %s", i+1, column, want); !strings.HasPrefix(p.String(), prefix) {
			t.Errorf("got  %s\nwant %s", p, prefix)
		}
		if text := p.Text() + "\n"; !strings.Contains(text, strings.TrimSpace(strings.Split(line, "# ")[0])) ||
			!strings.Contains(text, "| "+strings.Repeat(" ", p.Column-1)+"^\n") {
			t.Errorf("the place is not shown:\n%s", text)
		}
	}
	if len(ps) != faults {
		t.Errorf("%d problems for %d faults:\n%v", len(ps), faults, err)
	}
	for i := 1; i < len(ps); i++ {
		if ps[i].Line < ps[i-1].Line {
			t.Errorf("%s comes before %s", &ps[i-1], &ps[i])
		}
	}
}

func TestWhatIsNoFileIsOneProblem(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":             "topics:\n\t- {",
		"an open bracket":     "logger: {level: info",
		"a list":              "- a\n- b",
		"a text":              "hello",
		"two documents":       "drain: 1s\n---\ndrain: 2s\n",
		"no text":             "drain: \xff\xfe",
		"an alias to nothing": "node: *here",
		"a merge":             "logger:\n  <<: {level: info}",
		"a tag":               "node: !!str x",
	} {
		_, err := Load(Source{Path: "pawl.yaml", Text: []byte(text)})
		if ps, ok := errors.AsType[Problems](err); !ok || len(ps) != 1 || ps[0].Line < 1 || ps[0].Column < 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func load(t *testing.T, text string, env map[string]string) *Config {
	t.Helper()
	c, err := Load(Source{Path: "pawl.yaml", Text: []byte(text), Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := load(t, "topics:\n  a: {handler: http, url: 'http://h/', deadline: 10s}\n  b: {handler: pipe, command: cat}",
		nil)
	if c.Store != "sqlite:pawl.db" || c.Listen != "127.0.0.1:9102" || c.Drain != 30*time.Second ||
		c.Logger.Level != "info" ||
		len(c.Logger.Outputs) != 1 || c.Logger.Outputs[0].JSON || c.AutoMigrate || c.Node == "" {
		t.Errorf("defaults are %+v", c)
	}
	a, b := c.Topics[0], c.Topics[1]
	if a.Method != "POST" || a.Timeout != 10*time.Second || a.Concurrency != 32 || a.Lease != 30*time.Second ||
		a.PerSecond != 0 {
		t.Errorf("defaults of a topic are %+v", a)
	}
	if b.Concurrency < 1 || b.Settings != (store.Declaration{Name: "b"}) || b.Method != "" {
		t.Errorf("defaults of a topic are %+v", b)
	}
	if load(t, "", nil).Topics != nil {
		t.Error("an empty file has topics")
	}
}

func TestTheSampleHasEveryKey(t *testing.T) {
	b, err := os.ReadFile("../../deploy/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, string(b), nil)
	used := map[*field]bool{}
	names := map[string]bool{}
	var all func(*node)
	all = func(n *node) {
		if n.field != nil && n.line > 0 {
			used[n.field], names[n.field.name] = true, true
		}
		for _, child := range n.under {
			all(child)
		}
		for _, item := range n.items {
			all(item)
		}
	}
	all(c.root)
	c.root.each(func(_ *node, f *field) {
		if !names[f.name] && f.name != "body_file" { // which would have to be there
			t.Errorf("the sample has no %s", f.name)
		}
	})
	mail := c.Topics[1]
	if mail.Name != "mail" || mail.Handler != Pipe || mail.Command != "python3 -u worker.py" ||
		mail.Settings.Order != store.OrderKey ||
		mail.Settings.Deadline != 5*time.Minute || *mail.Settings.Park || *mail.Settings.Tail ||
		mail.Retries != (policy.Retries{Attempts: 400, For: 24 * time.Hour, Base: 500 * time.Millisecond,
			Max: 10 * time.Minute}) || *mail.Settings.Retain != time.Hour || *mail.Settings.MaxWaiting != 100_000 {
		t.Errorf("the sample is read as %+v", mail)
	}
	if thumbnails := c.Topics[2]; thumbnails.PerSecond != 50 || thumbnails.Reserved != 1 {
		t.Errorf("the sample is read as %+v", thumbnails)
	}
	o := c.Overrides[0]
	if *o.Alert != policy.Error || *o.Backoff.Base != time.Second || *o.Backoff.Max != 2*time.Minute ||
		*o.MaxAttempts != 8 || o.Origin != "pawl.yaml:118" {
		t.Errorf("an override of the sample is read as %+v", o)
	}
	if o := c.Overrides[1]; *o.Repeat != policy.NotRepeated || *o.DeadLetter != policy.Always ||
		o.Match.Type != "Download" {
		t.Errorf("an override of the sample is read as %+v", o)
	}
}

func TestFlagsGoBeforeTheEnvironmentThatBeforeTheFile(t *testing.T) {
	s := Source{
		Path: "pawl.yaml", Text: []byte("store: 'memory:'\nlisten: off\nlogger: {format: json}\n"),
		Flags: map[string]string{"store": "sqlite:flag.db"},
		Getenv: func(name string) string {
			return map[string]string{"PAWL_STORE": "sqlite:env.db", "PAWL_LISTEN": "127.0.0.1:1",
				"PAWL_LOG_LEVEL": "warn"}[name]
		},
	}
	c, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, set := range c.Settings() {
		got[set.Path] = set.Value + " from " + set.Origin
	}
	for path, want := range map[string]string{
		"store": "sqlite:flag.db from flag --store", "listen": "127.0.0.1:1 from env PAWL_LISTEN",
		"logger.level":  "warn from env PAWL_LOG_LEVEL",
		"logger.format": "json from pawl.yaml:3", "drain": "30s from default",
	} {
		if got[path] != want {
			t.Errorf("%s is %s, want %s", path, got[path], want)
		}
	}
	s.Flags["listen"] = "everywhere:80"
	if _, err := Load(s); err == nil || !strings.HasPrefix(err.Error(), "flag --listen: listen: ") {
		t.Errorf("a bad flag: %v", err)
	}
}

func TestPartsHideTheFaultsOfOthers(t *testing.T) {
	s := Source{Path: "pawl.yaml", Text: []byte("store: 'memory:'\ntopics: {a: {handler: nobody}}\n")}
	if c, err := Load(s, "store"); err != nil || c.Store != "memory:" {
		t.Errorf("the store of a file with faults elsewhere: %v", err)
	}
	if _, err := Load(s, "topics"); err == nil {
		t.Error("the fault is hidden from those whom it concerns")
	}
}

func TestRestartNamesWhatIsNotLive(t *testing.T) {
	before := load(t,
		"topics:\n  a: {handler: exec, command: cat, limit: 5/s}\n  b: {handler: exec, command: cat}\n  k: {handler: pipe, command: cat, concurrency: 8}\n",
		nil)
	after := load(t, `
store: 'memory:'
logger: {level: debug}
topics:
  a: {handler: exec, command: tac, limit: 6/s, concurrency: 9}
  k: {handler: pipe, command: cat, concurrency: 9}
  c: {handler: exec, command: cat}
policy: {overrides: [{match: {kind: Service}, alert: error}]}
`, nil)
	if got := strings.Join(Restart(before, after),
		" "); got != "store topics.a.command topics.b topics.k.concurrency topics.c" {
		t.Errorf("to restart for: %s", got)
	}
	if got := Restart(before, before); got != nil {
		t.Errorf("nothing changed, but %v", got)
	}
}

func TestLimits(t *testing.T) {
	c := load(t, `
limits:
  mailhost: {rate: 90/m, burst: 3, by: key, shared: true}
  tenants: {by: "header:tenant", concurrency: 2}
topics:
  mail: {handler: exec, command: cat, limits: [mailhost, tenants], adaptive: true}
`, nil)
	want := []Limit{{Name: "mailhost", By: ByKey, PerSecond: 1.5, Burst: 3, Shared: true},
		{Name: "tenants", By: "header:tenant", Concurrency: 2}}
	if !slices.Equal(c.Limits, want) {
		t.Errorf("limits are %+v", c.Limits)
	}
	if mail := c.Topics[0]; !mail.Adaptive || !slices.Equal(mail.Limits, []string{"mailhost", "tenants"}) {
		t.Errorf("topic is %+v", mail)
	}
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	faults(t, `
limits:
  idle: {by: key}          # 3 limits.idle: limits nothing
  torn:
    concurrency: 3
    burst: 2               # 12 limits.torn.burst: goes with a rate
  alone: {concurrency: 1, shared: true} # 35 limits.alone.shared: goes with a rate
  slow: {rate: 5/1d}     # 16 limits.slow.rate: must be between one in 10000s and 1000000/s (got "5/1d"); for no limit
  fast: {rate: 2000000/s} # 16 limits.fast.rate: must be between one in 10000s
  odd: {rate: 1/s, by: chance} # 24 limits.odd.by: must be all, key, topic, or header:NAME
topics:
  a:
    handler: exec
    command: cat
    limits:
      - torn
      - tron               # 9 topics.a.limits[1]: there is no limit "tron"
      - torn               # 9 topics.a.limits[2]: names limit "torn" twice
`)
}

// The configuration within the compose file is right, too.
func TestTheComposeFile(t *testing.T) {
	b, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(b, &compose); err != nil {
		t.Fatal(err)
	}
	s := Source{Path: "pawl.yaml", Text: []byte(strings.ReplaceAll(compose.Configs["pawl"].Content, "$$", "$")),
		ReadFile: func(string) ([]byte, error) {
			return []byte("word\n"), nil
		}}
	if c, err := Load(s); err != nil || c.Store != "postgres://pawl:word@postgres:5432/pawl" || len(c.Topics) != 1 {
		t.Errorf("%v\n%s", err, s.Text)
	}
}

// Editors of Windows begin a file with a mark that nobody sees.
func TestAMarkOfUTF8AtTheBeginningIsSkipped(t *testing.T) {
	if c := load(t, "\uFEFFtopics: {a: {handler: exec, command: cat}}\n", nil); len(c.Topics) != 1 {
		t.Errorf("topics are %+v", c.Topics)
	}
	_, err := Load(Source{Path: "pawl.yaml", Text: []byte("\uFEFFdrian: 1s\n")})
	if want := "pawl.yaml:1:1: drian: unknown key; did you mean drain?\n>    1 | drian: 1s\n       | ^"; err == nil ||
		err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Where the parser cannot go on, it is said that there may be more.
func TestASyntaxErrorSaysThatTheRestWasNotLookedAt(t *testing.T) {
	for _, text := range []string{"drian: 1s\nlogger: {level: inof\n", "drian: 1s\nnode: a: b\n", "topics:\n\t- {"} {
		_, err := Load(Source{Path: "pawl.yaml", Text: []byte(text)})
		if ps, ok := errors.AsType[Problems](err); !ok || len(ps) != 1 ||
			!strings.Contains(ps[0].Hint, "the rest of the file was not checked") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Other commands need no more of a file than its store.
func TestAFileWithoutTopicsIsAWarning(t *testing.T) {
	const plain = "topics: {a: {handler: exec, command: cat}}\n"
	for text, want := range map[string]string{
		"":                      "pawl.yaml:1:1: warning: topics: there are none: the file is empty; `pawl up` does not start without",
		"# nothing\n":           "pawl.yaml:1:1: warning: topics: there are none: the file is empty; `pawl up` does not start without",
		"store: 'memory:'\n":    "pawl.yaml:1:1: warning: topics: there are none; `pawl up` does not start without",
		"drain: 1s\ntopics: {}": "pawl.yaml:2:9: warning: topics: there are none; `pawl up` does not start without",
		plain:                   "",
	} {
		c, err := Load(Source{Path: "pawl.yaml", Text: []byte(text)})
		got := ""
		if err == nil && len(c.Warnings) > 0 {
			got = c.Warnings[0].String()
		}
		if err != nil || !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q:\ngot  %s %v\nwant %s", text, got, err, want)
		}
	}
	if c, err := Load(Source{}); err != nil || len(c.Warnings) > 0 {
		t.Errorf("without a file: %v %v", c.Warnings, err)
	}
	if c, err := Load(Source{Path: "pawl.yaml", Text: []byte("store: 'memory:'")}, "store"); err != nil ||
		len(c.Warnings) > 0 {
		t.Errorf("for the store alone: %v %v", c.Warnings, err)
	}
}
