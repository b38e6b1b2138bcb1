package exec

import (
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/handler/internal/process"
)

// streams are the three streams of a program, as pipes.
type streams struct {
	body     []byte
	stdin    *os.File // nil: there is nothing to write
	stdout   *os.File
	stderr   *os.File
	theirs   []*os.File
	copying  sync.WaitGroup
	stdinEnd sync.WaitGroup
}

// openStreams makes the pipes of cmd. An empty body needs none.
func openStreams(cmd *exec.Cmd, body []byte) (*streams, error) {
	s := &streams{body: body}
	var err error
	open := func() (read, write *os.File) {
		if err == nil {
			read, write, err = os.Pipe()
		}
		return read, write
	}
	if len(body) > 0 {
		read, write := open()
		cmd.Stdin, s.stdin = read, write
		s.keep(read)
	}
	var write *os.File
	s.stdout, write = open()
	cmd.Stdout = write
	s.keep(write)
	s.stderr, write = open()
	cmd.Stderr = write
	s.keep(write)
	if err != nil {
		s.started()
		s.abandon()
		return nil, err
	}
	return s, nil
}

func (s *streams) keep(f *os.File) {
	if f != nil {
		s.theirs = append(s.theirs, f)
	}
}

// started closes the program's ends on our side.
func (s *streams) started() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
}

// abandon closes our ends: there is no program.
func (s *streams) abandon() {
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// copy begins to write the body and to read what the program writes.
func (s *streams) copy(stdout, stderr *process.Lines) {
	if s.stdin != nil {
		s.stdinEnd.Go(func() {
			_, _ = s.stdin.Write(s.body) // a program need not read what it does not want
			_ = s.stdin.Close()
		})
	}
	s.copying.Go(func() { process.Read(s.stdout, stdout) })
	s.copying.Go(func() { process.Read(s.stderr, stderr) })
}

// wait returns when everything is copied, after the program has ended.
func (s *streams) wait() {
	until := time.Now().Add(process.LeftOver)
	_ = s.stdout.SetReadDeadline(until)
	_ = s.stderr.SetReadDeadline(until)
	s.copying.Wait()
	if s.stdin != nil {
		_ = s.stdin.SetWriteDeadline(time.Now())
		s.stdinEnd.Wait()
	}
}
