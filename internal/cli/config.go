package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// source is the configuration file with what goes before it.
func (s *session) source(path string) (config.Source, error) {
	src, err := config.Find(path)
	if err != nil {
		return src, &problem{code: exitUsage, what: "cannot read the configuration file", err: err,
			next: "correct the path, or leave --config out for " + config.DefaultFile + " in this folder"}
	}
	src.CheckStore, src.CheckTopic, src.Kinds = checkStore, open.CheckTopic, s.kinds()
	src.Getenv, src.Mask = s.Getenv, redact.URL
	src.Flags = map[string]string{}
	if s.storeURL != "" {
		src.Flags["store"] = s.storeURL
	}
	if s.mirrorURL != "" {
		src.Flags["mirror"] = s.mirrorURL
	}
	if s.autoMigrate {
		src.Flags["auto-migrate"] = "true"
	}
	return src, nil
}

// checkStore says what `pawl up` would have against the URL of a store, before it opens it.
func checkStore(url string) (why, hint string) {
	err := open.Check(url)
	if err == nil {
		return "", ""
	}
	why = strings.TrimPrefix(err.Error(), open.ErrURL.Error()+": ")
	return "cannot be used: " + strings.ReplaceAll(why, "\n", "; "),
		cmp.Or(store.Hint(err), "`pawl help store-urls` has all forms")
}

// load reads the configuration, or parts of it, and learns its secrets.
func (s *session) load(src config.Source, parts ...string) (*config.Config, error) {
	c, err := config.Load(src, parts...)
	if err != nil {
		return nil, &problem{code: exitUsage, what: "the configuration is invalid", err: err,
			next: "correct it; `pawl config check` checks the whole file, and docs/configuration.md has all keys"}
	}
	s.learn(c)
	return c, nil
}

// loadFile reads the configuration file, or parts of it.
func (s *session) loadFile(parts ...string) (*config.Config, error) {
	src, err := s.source(s.configPath)
	if err != nil {
		return nil, err
	}
	return s.load(src, parts...)
}

// learn takes note of what no log may show.
func (s *session) learn(c *config.Config) {
	s.redactor.Learn(c.Secrets...)
	urls := []string{c.Store, c.Mirror}
	for i := range c.Topics {
		urls = append(urls, c.Topics[i].URL)
	}
	for _, u := range urls {
		s.redactor.Learn(redact.Passwords(u)...)
		s.redactor.Learn(basicAuth(u)...)
	}
}

// basicAuth is the password of a URL as a request carries it.
func basicAuth(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil {
		return nil
	}
	password, ok := u.User.Password()
	if !ok {
		return nil
	}
	return []string{base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))}
}

// findStore takes the store from the configuration file, and its mirror, unless the
// flag or the environment names one.
func (s *session) findStore() error {
	if s.storeURL != "" || s.Getenv("PAWL_STORE") != "" {
		return nil
	}
	c, err := s.loadFile("store", "mirror")
	if err == nil {
		s.fromFile, s.mirrorFile = c.Store, c.Mirror
		s.redactor.LearnURLs(c.Store, c.Mirror)
	}
	return err
}

// matrix is the effective policy: what is built in, and the overrides of the
// configuration file.
func (s *session) matrix() (*policy.Matrix, error) {
	c, err := s.loadFile("policy")
	if err != nil {
		return nil, err
	}
	m, err := serve.Matrix(c.Overrides...)
	return m, cannot(err, "read the policy")
}

// effective is the policy in effect: the matrix, and over it what operators have set in the store, if that can be
// asked.
func (s *session) effective() (*policy.Matrix, error) {
	m, err := s.matrix()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	opened := s.opened
	if opened == nil {
		opened, err = s.openAs(ctx, open.Config{Look: true, Existing: true})
	}
	var refused []error
	if err == nil {
		m, refused, err = serve.Overridden(ctx, opened, m)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		refused = append(refused, err)
	}
	for _, err := range refused {
		s.note("mind: what operators have set in the store is not all here: %v", err)
	}
	return m, nil
}

func (s *session) configuration() *cobra.Command {
	return noun("config", "Check and show the configuration file",
		`Checks and shows the configuration file of the daemon, pawl.yaml. A flag
overrides the environment, the environment overrides the file, and the file overrides
the defaults.`,
		s.configCheck(), s.configShow(), s.configSchema())
}

func (s *session) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Find everything that is wrong with a file", Args: count(0, 1, "one file at most"),
		Long: `Checks the whole file and prints every problem with its line and column, and warnings
about values that are valid, but probably not intended. Nothing is started. The exit code is 2 if there
is a problem; warnings do not count. With --store URL it also warns of every setting of a
topic that a daemon with this file would change in that store; exit code 5 says that it
would not start there, because a topic with messages keeps its order.`,
		Example: `  pawl config check
  pawl config check --store sqlite:pawl.db
  pawl config check pawl.yaml -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, path := c.Context(), s.configPath
			if len(args) > 0 {
				path = args[0]
			}
			src, err := s.source(path)
			if err != nil {
				return err
			}
			if src.Path == "" {
				return noFile()
			}
			loaded, err := s.load(src)
			problems, wrong := errors.AsType[config.Problems](err)
			var refused error
			if !wrong {
				problems = loaded.Warnings
				if s.storeURL != "" {
					var changes config.Problems
					changes, refused = s.changesOf(ctx, src.Path, loaded)
					problems = append(problems, changes...)
				}
			}
			if err := s.printProblems(problems); err != nil {
				return err
			}
			faults := len(problems.Faults())
			if faults > 0 {
				return &problem{code: exitUsage, what: fmt.Sprintf("%s is not right", src.Path),
					err:  fmt.Errorf("it has %s, see above", operate.Counted(faults, "problem")),
					next: "correct it; docs/configuration.md has all keys"}
			}
			if refused != nil {
				return refused
			}
			warned := ""
			if n := len(problems); n > 0 {
				warned = "; " + operate.Counted(n, "warning") + ", see above"
			}
			s.note("%s is right: %s, %s%s", src.Path, operate.Counted(len(loaded.Topics), "topic"),
				operate.Counted(len(loaded.Overrides), "override"), warned)
			return nil
		},
	}
}

// changesOf are warnings of what a daemon with the configuration would change in the
// settings of topics that the store has. The error is what it would not start with.
func (s *session) changesOf(ctx context.Context, file string, c *config.Config) (config.Problems, error) {
	topics, err := part[store.Topics](ctx, s, "compare settings")
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // a daemon makes it
	} else if err != nil {
		return nil, err
	}
	var changes config.Problems
	for i := range c.Topics {
		d := &c.Topics[i].Settings
		stats, err := topics.Stats(ctx, d.Name)
		if err != nil {
			return nil, cannot(err, "look at topic %s", d.Name)
		}
		if len(stats) == 0 {
			continue
		}
		st := &stats[0]
		next, err := d.Apply(st.Topic, st.Waiting+st.Delayed+st.Leased == 0)
		if err != nil {
			return changes, cannot(err, "start on this store")
		}
		if what := st.Topic.Changes(next); what != "" {
			changes = append(changes, config.Problem{File: file, Path: "topics." + d.Name, Message: what, Warning: true})
		}
	}
	return changes, nil
}

// noFile is the error of a command that needs a configuration file.
func noFile() error {
	return &problem{code: exitUsage, what: "there is no configuration",
		err:  fmt.Errorf("there is no %s in this folder", config.DefaultFile),
		next: "name one with --config FILE; docs/configuration.md has all keys, deploy/pawl.yaml is a sample"}
}

// printProblems prints them as what was asked for: they are what a check finds.
func (s *session) printProblems(ps config.Problems) error {
	if s.output == formatTable {
		for i := range ps {
			_, _ = fmt.Fprintln(s.out, clean(s.redactor.Redact(ps[i].Text()))) // the error comes again with Flush
		}
		return s.out.Flush()
	}
	l := s.list()
	for i := range ps {
		l.add(&ps[i])
	}
	return l.end("")
}

func (s *session) configShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "List the effective values and where each comes from", Args: count(0, 0, "nothing"),
		Long: `Lists every value that is in effect, with its origin: default, a line of the file,
a variable of the environment, or a flag. Secrets are masked.`,
		Example: `  pawl config show
  pawl config show -o json | jq '.[] | select(.origin != "default")'`,
		RunE: func(*cobra.Command, []string) error {
			c, err := s.loadFile()
			if err != nil {
				return err
			}
			l := s.list("KEY", "VALUE", "ORIGIN", "RELOAD")
			for _, set := range c.Settings() {
				if strings.HasSuffix(set.Path, ".command") || strings.HasSuffix(set.Path, ".exec") ||
					strings.HasSuffix(set.Path, ".pipe") {
					set.Value = redact.Command(set.Value)
				}
				set.Value = s.redactor.Redact(set.Value)
				l.add(set, set.Path, set.Value, set.Origin, map[bool]string{true: "live", false: "-"}[set.Live])
			}
			return l.end("")
		},
	}
}

func (s *session) configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the file", Args: count(0, 0, "nothing"),
		Long: `Prints the JSON Schema of the file, for editors: write it to a file, and begin
pawl.yaml with # yaml-language-server: $schema=FILE`,
		Example: `  pawl config schema > pawl.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			b, err := config.Schema(serve.Kinds())
			if err != nil {
				return err
			}
			if s.output == formatLines {
				var line bytes.Buffer
				err = json.Compact(&line, b)
				b = append(line.Bytes(), '\n')
			}
			_, failed := s.out.Write(b)
			return errors.Join(err, failed, s.out.Flush())
		},
	}
}
