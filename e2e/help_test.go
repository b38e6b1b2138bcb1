//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestHelpExamplesRun types every example of every command's help, in a folder
// with a store of its own, and wants none of them to be refused.
func TestHelpExamplesRun(t *testing.T) {
	t.Parallel()
	var port sync.Mutex // daemons of several examples listen at the same
	ready := playground(t)
	for _, command := range commandsOf(t, nil) {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			t.Parallel()
			examples := section(help(t, command), "Examples:")
			if len(examples) == 0 && !ofPipeline(command) {
				t.Fatal("the help has no examples")
			}
			dir, env := t.TempDir(), os.Environ()
			if err := os.CopyFS(dir, os.DirFS(ready)); err != nil {
				t.Fatal(err)
			}
			if command[0] == "kafka" || command[0] == "skip" {
				url := kafkaPlayground(t, command)
				if command[0] == "kafka" { // the other one names the store where it has to be Kafka
					env = append(env, "PAWL_STORE="+url)
				}
				for i := range examples {
					examples[i] = strings.ReplaceAll(examples[i], "kafka://localhost:9092", "'"+url+"'")
				}
			}
			for _, line := range examples {
				if strings.Contains(line, "# needs ") {
					continue // a server that is not here
				}
				endless, found := strings.CutSuffix(line, "# runs until it is stopped")
				if found {
					line = "timeout -s TERM 2 " + endless + "|| [ $? = 124 ]"
					port.Lock()
				}
				cmd := script(t, line)
				cmd.Dir, cmd.Env = dir, env
				out, err := cmd.CombinedOutput()
				if found {
					port.Unlock()
				}
				if err != nil {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
		})
	}
}

// ofPipeline tells commands that a pipeline brings: most of them need a daemon that runs it.
func ofPipeline(command []string) bool {
	return slices.Contains([]string{"chaos", "convert", "crawl", "forward", "project", "wecom"}, command[0])
}

// kafkaPlayground is a store with some messages, but for what makes topics.
func kafkaPlayground(t *testing.T, command []string) string {
	t.Helper()
	name := fmt.Sprintf("help-%08x", rand.Uint32())
	url := fmt.Sprintf("kafka://%s?prefix=%s.&group=%s&partitions=1", kafkaBroker(t), name, name)
	if command[len(command)-1] != "ensure" {
		fill := `for i in 1 2 3 4 5; do echo "{\"body\":\"$i\"}"; done | pawl send mail --jsonl -q`
		if command[len(command)-1] == "health" { // what nobody works on is a problem
			fill += " && pawl work mail --exec true --until-empty -q"
		}
		cmd := script(t, fill)
		cmd.Env = append(os.Environ(), "PAWL_STORE="+url)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return url
}

// TestHelpIsComplete wants words about every command and every flag.
func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`^ +(-\w, |    )--[a-z-]+ ?[a-zA-Z]* +\S`)
	for _, command := range commandsOf(t, nil) {
		text := help(t, command)
		if about, _, _ := strings.Cut(text, "\nUsage:"); len(about) < 40 {
			t.Errorf("%v: the help says only %q", command, about)
		}
		for _, line := range section(text, "Flags:") {
			if !flag.MatchString("  "+line) && !flag.MatchString("      "+line) {
				t.Errorf("%v: nothing is said about %q", command, line)
			}
		}
	}
}

// commandsOf returns the command lines of all verbs below one.
func commandsOf(t *testing.T, above []string) [][]string {
	t.Helper()
	var all [][]string
	text := help(t, above)
	for _, title := range []string{"Work:", "Look and act:", "Stores:", "Additional Commands:", "Available Commands:"} {
		for _, line := range section(text, title) {
			command := append(append([]string{}, above...), strings.Fields(line)[0])
			if below := commandsOf(t, command); len(below) > 0 {
				all = append(all, below...)
			} else if command[0] != "help" {
				all = append(all, command)
			}
		}
	}
	return all
}

func help(t *testing.T, command []string) string {
	t.Helper()
	out, err := exec.Command("pawl", append(append([]string{}, command...), "--help")...).Output()
	if err != nil {
		t.Fatalf("%v --help: %v", command, err)
	}
	return string(out)
}

// section returns the lines of a help under a title.
func section(text, title string) []string {
	_, after, found := strings.Cut("\n"+text, "\n"+title+"\n")
	if !found {
		return nil
	}
	block, _, _ := strings.Cut(after, "\n\n")
	var lines []string
	for line := range strings.Lines(block) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// playground is a folder in which the examples make sense: there are messages, and
// dead letters, and a worker in Python.
func playground(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := "topics: {mail: {handler: pipe, command: python3 -u worker.py}}\n"
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	worker := `import sys, json
for line in sys.stdin:
    m = json.loads(line)
    print(json.dumps({"id": m["id"], "token": m["token"], "verdict": "ack"}), flush=True)
`
	if err := os.WriteFile(filepath.Join(dir, "worker.py"), []byte(worker), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`pawl send mail "timeout"; pawl send mail "no such address"`,
		`pawl work mail --exec 'cat >&2; exit 65' --until-empty`,
		`pawl send mail --key customer-7 "one"; pawl send mail "two"`,
		`pawl schedules put nightly --cron '30 2 * * *' --topic mail`,
		`pawl state put flags beta true`,
	} {
		cmd := script(t, line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return dir
}
