package process

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Streams are our ends of the pipes to a program.
type Streams struct {
	Stdin          *os.File // nil: the program has nothing to read
	Stdout, Stderr *os.File
	theirs         []*os.File
}

// OpenStreams makes the pipes of cmd.
func OpenStreams(cmd *exec.Cmd, stdin bool) (*Streams, error) {
	s := &Streams{}
	stdout, err1 := s.pipe(&s.Stdout)
	stderr, err2 := s.pipe(&s.Stderr)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := errors.Join(err1, err2)
	if stdin && err == nil {
		var read *os.File
		read, s.Stdin, err = os.Pipe()
		cmd.Stdin, s.theirs = read, append(s.theirs, read)
	}
	if err != nil {
		s.Started()
		s.Close()
		return nil, err
	}
	return s, nil
}

// pipe makes a pipe that the program writes to.
func (s *Streams) pipe(ours **os.File) (theirs *os.File, err error) {
	*ours, theirs, err = os.Pipe()
	s.theirs = append(s.theirs, theirs)
	return theirs, err
}

// Started closes the program's ends on our side. One that could not be opened is nil, and
// nothing happens to it.
func (s *Streams) Started() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
}

// Ended lets what the program left in its output be read, for a moment: a process that left
// its group may hold the pipes open.
func (s *Streams) Ended() {
	until := time.Now().Add(leftOver)
	_ = s.Stdout.SetReadDeadline(until)
	_ = s.Stderr.SetReadDeadline(until)
}

// Close closes our ends.
func (s *Streams) Close() {
	for _, f := range []*os.File{s.Stdin, s.Stdout, s.Stderr} {
		_ = f.Close()
	}
}
