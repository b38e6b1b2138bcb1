package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
	"github.com/pawl-dev/pawl/store"
)

func command() pipeline.Command {
	return pipeline.Command{
		Use: "convert SRC…", Short: "Convert documents to Markdown",
		Long: `Without --out, SRC is one document (- is the standard input), and its Markdown is printed.

With --out, every file in the SRC folders becomes DIR/PATH.md. The run can be interrupted
and killed at any time; the same command goes on where it was: finished files are skipped,
changed files are converted again. DIR/state.json has the state of each file, and
DIR/failed_report.json the files that failed, and why.

With --llm PROVIDER/MODEL, a language model improves the Markdown. Providers are in pawl.yaml, under llm.`,
		Example: "  pawl convert report.docx\n  pawl convert docs --out markdown\n" +
			"  pawl convert docs --out markdown --llm local/small",
		MinArgs: 1, MaxArgs: -1, Args: "files or folders", Run: execute, Commands: []pipeline.Command{runsCommand()},
		Flags: []pipeline.Flag{
			{Name: "out", Doc: "write a tree of Markdown files to `DIR`"},
			{Name: "llm", Doc: "improve the Markdown by `PROVIDER/MODEL`"},
			{Name: "llm-prompt", Doc: "tell the model what `FILE` says, instead of the built-in prompt"},
			{Name: "llm-meta", Type: pipeline.Bool, Doc: "ask the model for title, summary and tags as front matter"},
			{Name: "resume", Type: pipeline.Bool, Doc: "go on with the run in --out (the default)"},
			{Name: "fresh", Type: pipeline.Bool,
				Doc: "forget the run in --out and start over; answers of models are kept"},
			{Name: "retry-failed", Type: pipeline.Bool, Doc: "try again the files that failed for good"},
			{Name: "max-concurrency", Type: pipeline.Int,
				Doc: "at most `N` requests in flight, or conversions without --llm"},
			{Name: "max-retries", Type: pipeline.Int, Default: "3",
				Doc: "retry a file `N` times after its first failure, then give it up"},
			{Name: "include", Type: pipeline.Texts, Doc: "only files that match `GLOB`; may be repeated"},
			{Name: "exclude", Type: pipeline.Texts, Doc: "leave out files that match `GLOB`; may be repeated"},
			{Name: "no-cache", Type: pipeline.Bool, Doc: "ask the model again for what it has answered before"},
			{Name: "type", Doc: "the `TYPE` of the document, such as html, whatever its name says"},
			{Name: "images", Doc: "save pictures of documents to `DIR` and link them"},
			{Name: "charset", Doc: "encoding `NAME` of text files that do not state one, such as windows-1250"},
			{Name: "hidden", Type: pipeline.Bool, Doc: "convert hidden and deleted text, too, and mark it"},
			{Name: "raw-numbers", Type: pipeline.Bool, Doc: "write numbers of workbooks as they are stored: 0.075, not 7.5%"},
			{Name: "page-markers", Type: pipeline.Bool, Doc: "mark the beginning of pages and slides"},
			{Name: "log-level", Type: pipeline.Choice, Choices: []string{"debug", "info", "warn", "error"},
				Doc: "log from `LEVEL` on"},
			{Name: "log-format", Type: pipeline.Choice, Choices: []string{"text", "json"}, Default: "text",
				Doc: "how log lines are written"},
		},
	}
}

func execute(ctx context.Context, in *pipeline.Invocation) error {
	if name := in.Flags.Text("charset"); name != "" && charset.Named(name) == nil {
		return usage("name one as HTML or IANA do, such as windows-1250, koi8-r or ibm437", "unknown charset %q", name)
	}
	if in.Flags.Text("out") == "" {
		return printOne(ctx, in)
	}
	return executeRun(ctx, in)
}

func usage(next, format string, args ...any) error {
	return &pipeline.Error{Code: pipeline.ExitUsage, What: fmt.Sprintf(format, args...), Next: next}
}

// printOne converts one document and prints it.
func printOne(ctx context.Context, in *pipeline.Invocation) error {
	if len(in.Args) != 1 {
		return usage("name one file, or a folder for the outputs with --out",
			"without --out, one document is converted, not %d", len(in.Args))
	}
	if in.Flags.Text("llm") != "" {
		return usage("add --out DIR", "--llm needs --out: answers that were paid for are kept there")
	}
	name := in.Args[0]
	var data []byte
	var err error
	if name == "-" {
		data, err = io.ReadAll(io.LimitReader(in.Stdin, maxDocument+1))
	} else {
		var info os.FileInfo
		if info, err = os.Stat(name); err == nil && info.IsDir() {
			return usage("add --out DIR", "%s is a folder", name)
		}
		if err == nil {
			data, err = readFile(name)
		}
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &pipeline.Error{Code: pipeline.ExitNotFound, What: "cannot read " + name, Err: err,
			Next: "check the name"}
	case err != nil:
		return &pipeline.Error{What: "cannot read " + name, Err: err, Next: "check the file and its permissions"}
	}
	d := doc.Document{Name: name, Data: data, Charset: in.Flags.Text("charset"), Type: strings.ToLower(in.Flags.Text("type")),
		PageMarkers: in.Flags.Bool("page-markers"), Hidden: in.Flags.Bool("hidden"), RawNumbers: in.Flags.Bool("raw-numbers")}
	if name == "-" {
		d.Name = ""
	}
	var all pictures
	if dir := in.Flags.Text("images"); dir != "" {
		d.Image = images{dir: dir}.keeper("", &all)
	}
	d.Trace = trace(ctx, logger(in).With("file", name))
	md, err := NewRegistry(tool.Find()).Convert(ctx, d)
	if err != nil {
		kind := pawl.Describe(err).Kind
		return &pipeline.Error{What: fmt.Sprintf("cannot convert %s (%s)", name, kind), Err: err, Next: advice(kind)}
	}
	if all.err != nil {
		return &pipeline.Error{What: "cannot keep a picture of " + name, Err: all.err, Next: "choose another --images"}
	}
	return answer(in, map[string]string{"file": name, "title": md.Title, "markdown": md.Text}, func(w io.Writer) error {
		_, err := io.WriteString(w, md.Text)
		return err
	})
}

// answer prints a result: as a text, or as a line of JSON.
func answer(in *pipeline.Invocation, v any, text func(io.Writer) error) error {
	if in.Output == "table" {
		return text(in.Stdout)
	}
	return json.NewEncoder(in.Stdout).Encode(v)
}

// advice says what one can do about a kind of error.
func advice(kind pawl.Kind) string {
	switch kind {
	case doc.KindLocked:
		return "save it without a password"
	case doc.KindHidden:
		return "add --hidden to convert what is hidden"
	case doc.KindUnsupported:
		return "say what it is with --type"
	case doc.KindToolMissing:
		return "install the program; `pawl doctor` lists what is missing"
	case pawl.KindPanic:
		return "report it, with the file if others may see it; --log-level debug shows where it happened"
	}
	return "open it in the program that made it, and save it again"
}

// logger writes log lines on stderr: from warnings on where a board is drawn, else from info on.
func logger(in *pipeline.Invocation) *slog.Logger {
	if in.Getenv("PAWL_DISABLE_LOGS") == "true" {
		return slog.New(slog.DiscardHandler)
	}
	level := slog.LevelInfo
	if in.Terminal || in.Quiet || in.Flags.Text("out") == "" {
		level = slog.LevelWarn
	}
	if l := in.Flags.Text("log-level"); l != "" {
		_ = level.UnmarshalText([]byte(l)) // it is one of the choices
	}
	o := &slog.HandlerOptions{Level: level}
	if in.Flags.Text("log-format") == "json" {
		return slog.New(slog.NewJSONHandler(in.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(in.Stderr, o))
}

// executeRun carries out a run and says how it ended.
func executeRun(ctx context.Context, in *pipeline.Invocation) error {
	r, err := newRun(in)
	if err != nil {
		return err
	}
	if in.DryRun {
		return r.plan(ctx, in)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return &pipeline.Error{What: "cannot make " + r.out, Err: err, Next: "choose another --out"}
	}
	if r.outInfo, err = os.Stat(r.out); err != nil {
		return err
	}
	if err := r.apart(); err != nil {
		return err
	}
	release, ok, err := lock(filepath.Join(r.out, ".pawl", "lock"))
	if err != nil {
		return &pipeline.Error{What: "cannot lock " + r.out, Err: err, Next: "choose another --out"}
	}
	if !ok {
		return &pipeline.Error{Code: pipeline.ExitConflict, What: "another run writes to " + r.out,
			Next: "wait for it, or choose another --out"}
	}
	defer release()
	if err := r.open(ctx, in); err != nil {
		return err
	}
	if err := r.useModel(ctx, in); err != nil {
		return err
	}
	r.stats.began = time.Now()
	r.hand = newHand(2 * int64(r.most))
	board := in.Board(r.boardLines, r.boardLine)
	err = r.carryOut(ctx, in)
	board.Stop()
	state := done
	if err != nil {
		state = interrupted
	}
	r.note(state)
	s := r.summary()
	if err := answer(in, s, s.print); err != nil {
		return err
	}
	return r.ended(in, &s, err)
}

// apart is an error if a source is the folder of the outputs, which is no source.
func (r *run) apart() error {
	for _, s := range r.sources {
		if info, err := os.Stat(s.path); err == nil && os.SameFile(info, r.outInfo) {
			return &pipeline.Error{Code: pipeline.ExitUsage, What: "--out is the source itself",
				Err:  errors.New("outputs are not converted, so nothing would be"),
				Next: "choose another --out; it may be a folder in the source, which is left out then"}
		}
	}
	return nil
}

// ended is the error that a run ends with.
func (r *run) ended(in *pipeline.Invocation, s *Summary, err error) error {
	again := resumeCommand(in)
	switch {
	case errors.Is(err, errHalted):
		return &pipeline.Error{Code: pipeline.ExitUnfinished, What: "the run is not finished", Err: err,
			Next: "fix that, then resume with: " + again}
	case errors.Is(err, errInterrupted):
		return &pipeline.Error{Code: pipeline.ExitUnfinished, What: "interrupted; what is done is kept",
			Next: "resume with: " + again}
	case err != nil:
		return &pipeline.Error{What: "the run failed", Err: err, Next: "resume with: " + again}
	case s.PermanentFailure+s.Failed > 0:
		return &pipeline.Error{Code: pipeline.ExitPartly, What: pipeline.Some(s.PermanentFailure+s.Failed,
			"file failed for good", "files failed for good"),
			Next: "see " + filepath.Join(r.out, "failed_report.json") + "; try them again with --retry-failed"}
	case s.Unreadable > 0:
		return &pipeline.Error{Code: pipeline.ExitPartly, What: pipeline.Some(s.Unreadable,
			"folder or file of the source cannot be looked at", "folders or files of the source cannot be looked at"),
			Err: errors.New("the log names them"), Next: "make them readable, and run it again"}
	}
	return nil
}

// resumeCommand is the command that goes on with a run: with all of its flags, since what is done with others would be
// done, and paid, again.
func resumeCommand(in *pipeline.Invocation) string {
	words := append([]string{"pawl", "convert"}, in.Args...)
	for _, f := range command().Flags {
		switch flag := "--" + f.Name; {
		case !in.Flags.Changed(f.Name) || f.Name == "resume" || f.Name == "fresh" || f.Name == "no-cache":
		case f.Type == pipeline.Bool:
			words = append(words, flag)
		case f.Type == pipeline.Int:
			words = append(words, flag, fmt.Sprint(in.Flags.Int(f.Name)))
		case f.Type == pipeline.Texts:
			for _, v := range in.Flags.Texts(f.Name) {
				words = append(words, flag, v)
			}
		default:
			words = append(words, flag, in.Flags.Text(f.Name))
		}
	}
	if in.StoreGiven && !strings.Contains(in.StoreURL, "@") { // one with a password is not shown
		words = append(words, "--store", in.StoreURL)
	}
	for i, w := range words {
		words[i] = pipeline.ShellWord(w)
	}
	return strings.Join(append(words, "--resume"), " ")
}

// newRun makes a run of the flags. It reports all that is wrong with them.
func newRun(in *pipeline.Invocation) (*run, error) {
	f := in.Flags
	var errs []error
	if f.Bool("fresh") && (f.Bool("resume") || f.Bool("retry-failed")) {
		errs = append(errs, errors.New("--fresh forgets the run that --resume and --retry-failed go on with"))
	}
	most := int64(runtime.GOMAXPROCS(0))
	if f.Changed("max-concurrency") {
		most = f.Int("max-concurrency")
	}
	if most < 1 || most > 10_000 {
		errs = append(errs, fmt.Errorf("--max-concurrency goes from 1 to 10000 (got %d)", most))
	}
	if n := f.Int("max-retries"); n < 0 || n > 900 {
		errs = append(errs, fmt.Errorf("--max-retries goes from 0 to 900 (got %d)", n))
	}
	if f.Text("type") != "" {
		errs = append(errs, errors.New("--type is for one document, without --out"))
	}
	admits, err := newFilter(f.Texts("include"), f.Texts("exclude"))
	errs = append(errs, err)
	sources, err := findSources(in.Args)
	errs = append(errs, err)
	out, err := filepath.Abs(f.Text("out"))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, &pipeline.Error{Code: pipeline.ExitUsage, What: "cannot begin", Err: err,
			Next: "run `pawl convert --help` for its flags"}
	}
	r := &run{
		sources: sources, out: out, filter: admits, maxRetries: int(f.Int("max-retries")),
		retryFailed: f.Bool("retry-failed"),
		pageMarkers: f.Bool("page-markers"), charset: f.Text("charset"), registry: NewRegistry(tool.Find()),
		log: logger(in), most: int(most),
		cpu: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if dir := f.Text("images"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		r.images = images{dir: abs, from: out}
	}
	r.options = fmt.Sprintf("markers=%v images=%s", r.pageMarkers, r.images.dir)
	if r.hidden = f.Bool("hidden"); r.hidden {
		r.options += " hidden"
	}
	if r.rawNumbers = f.Bool("raw-numbers"); r.rawNumbers {
		r.options += " raw-numbers"
	}
	if r.charset != "" {
		r.options += " charset=" + r.charset
	}
	return r, nil
}

// plan says what a run would do.
func (r *run) plan(ctx context.Context, in *pipeline.Invocation) error {
	if info, err := os.Stat(r.out); err == nil {
		if r.outInfo = info; r.apart() != nil {
			return r.apart()
		}
	}
	var files, bytes int64
	skipped, unreadable := int64(0), int64(0)
	err := r.walk(ctx, func(f found) error { files++; bytes += f.size; return nil }, func() { skipped++ },
		func(path string, err error) { unreadable++; r.log.Error("Not readable", "file", path, "error", err) })
	if err != nil {
		return err
	}
	what := map[string]int64{"files": files, "bytes": bytes, "skipped": skipped, "unreadable": unreadable}
	return in.Document(what, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s, %d bytes; %d skipped, %d unreadable\n", pipeline.Some(files, "file", "files"),
			bytes, skipped, unreadable)
		return err
	})
}

// open opens the store of a run.
func (r *run) open(ctx context.Context, in *pipeline.Invocation) error {
	// A small cache: memory does not grow with the file, which is written nearly in order.
	url := "sqlite:" + filepath.Join(r.out, ".pawl", "convert.db") + "?cache=1000"
	if in.StoreGiven {
		url = in.StoreURL
	}
	s, err := in.Open(ctx, url, false)
	if err != nil {
		return err
	}
	marks, ok := store.As[store.Shared](s, store.CanMarks)
	if !ok {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "the store cannot hold a run: it keeps no marks",
			Next: "use sqlite: or postgres:"}
	}
	r.store, r.marks = s, marks
	r.scope = "convert/" + r.out
	meta := r.scope + "/run"
	if in.Flags.Bool("fresh") {
		for _, scope := range []string{r.scope, meta, r.scope + "/spent"} {
			if err := marks.Forget(ctx, scope); err != nil {
				return err
			}
		}
	}
	r.id = pawl.NewID() // kept if the run has none yet
	if _, err := marks.PutMarks(ctx, pawl.Mark{Scope: meta, Key: "id", Value: []byte(r.id)}); err != nil {
		return err
	}
	found, err := marks.GetMarks(ctx, meta, "id")
	if m, ok := found["id"]; ok {
		r.id = string(m.Value)
	}
	return err
}
