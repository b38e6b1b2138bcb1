package handler_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// asWorker, in the environment of this test binary, makes it a program for a
// pipe. Its value is what it does with each body, unless the body says it: a body
// "do X" is answered as X says.
const asWorker = "PROGRAM_TEST_WORKER"

// worker is the command line of such a program.
func worker(mode string) string {
	return "GORACE=atexit_sleep_ms=0 " + asWorker + "='" + mode + "' exec " + os.Args[0]
}

type line struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Token string `json:"token"`
	Body  string `json:"body"`
	text  string
}

type pipeWorker struct {
	mu  sync.Mutex
	out *bufio.Writer
	all sync.WaitGroup
}

func work(mode string) {
	w := &pipeWorker{out: bufio.NewWriter(os.Stdout)}
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	if strings.HasPrefix(mode, "unbuffered") {
		in = bufio.NewReaderSize(os.Stdin, 16) // reads no more than it works on, nearly
	}
	for n := 1; ; n++ {
		text, err := in.ReadString('\n')
		if err != nil {
			w.all.Wait()
			return
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			panic(err)
		}
		l.text = text
		what := mode
		if order, ok := strings.CutPrefix(l.Body, "do "); ok {
			what = order
		}
		w.do(what, l, n)
		if in.Buffered() == 0 {
			w.mu.Lock()
			_ = w.out.Flush()
			w.mu.Unlock()
		}
	}
}

func (w *pipeWorker) do(what string, l line, n int) {
	verb, argument, _ := strings.Cut(what, " ")
	switch verb {
	case "die": // with what it knows not yet told
		fmt.Fprintln(os.Stderr, "dying of "+l.ID)
		os.Exit(3)
	case "quit": // after so many, having told all
		w.say(l, `"ack"`, "")
		if fmt.Sprint(n) == argument {
			_ = w.out.Flush()
			os.Exit(0)
		}
	case "hang":
		_ = w.out.Flush()
		time.Sleep(time.Hour)
	case "slow", "beside": // one after the other, or side by side
		d, _ := time.ParseDuration(argument)
		if verb == "slow" {
			time.Sleep(d)
			w.say(l, `"ack"`, "")
			return
		}
		w.all.Go(func() {
			time.Sleep(d)
			w.say(l, `"ack"`, "")
			w.mu.Lock()
			defer w.mu.Unlock()
			_ = w.out.Flush()
		})
	case "mute":
		_ = w.out.Flush()
		_ = os.Stdout.Close()
		time.Sleep(time.Hour)
	case "deaf": // what it gets is the last that it reads; it answers in the given time
		_ = os.Stdin.Close()
		d, _ := time.ParseDuration(argument)
		time.Sleep(d)
		w.say(l, `"ack"`, "")
		_ = w.out.Flush()
		time.Sleep(time.Hour)
	case "flood":
		junk := strings.Repeat("x", 1<<20)
		for {
			if _, err := os.Stdout.WriteString(junk); err != nil {
				os.Exit(1)
			}
		}
	case "print": // a raw line
		_, _ = w.out.WriteString(argument + "\n")
	case "noisy": // logs to stdout, beside its verdict
		_, _ = fmt.Fprintf(w.out, "working on %s\n"+`{"level":"info","id":%q,"msg":"verdict: fine"}`+"\n%s",
			l.ID, l.ID, l.text)
		w.say(l, `"ack"`, "")
	case "beside-text": // writes around its verdict, without the end of a line
		var before, behind string
		if _, err := fmt.Sscanf(argument, "%q %q", &before, &behind); err != nil {
			panic(err)
		}
		fmt.Fprintf(w.out, `%s{"id":%q,"token":%q,"verdict":"ack"}%s`+"\n", before, l.ID, l.Token, behind)
	case "pairs": // each other line has no end
		fmt.Fprintf(w.out, `{"id":%q,"token":%q,"verdict":"ack"}%s`, l.ID, l.Token, strings.Repeat("\n", 2-2*(n%2)))
	case "long": // so many MiB, and a verdict
		megabytes, _ := strconv.Atoi(argument)
		fmt.Fprintln(w.out, strings.Repeat("x", megabytes<<20))
		w.say(l, `"ack"`, "")
	case "repr": // as Python prints a dict
		fmt.Fprintf(w.out, "{'id': '%s', 'token': '%s', 'verdict': 'ack'}\n", l.ID, l.Token)
	case "twice":
		w.say(l, `"ack"`, "")
		w.say(l, `"ack"`, "")
	case "say": // a verdict and further fields
		verdict, more, _ := strings.Cut(argument, " ")
		w.say(l, verdict, more)
	default:
		w.say(l, `"ack"`, "")
	}
}

func (w *pipeWorker) say(l line, verdict, more string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, `{"id":%q,"token":%q,"verdict":%s%s}`+"\n", l.ID, l.Token, verdict, more)
}
