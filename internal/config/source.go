package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline"
)

// DefaultFile is read when no other file is named, if it is there.
const DefaultFile = "pawl.yaml"

// maxFile bounds what is read as a configuration.
const maxFile = 1 << 20

// Source is where a configuration comes from.
type Source struct {
	// Path names the file in problems and origins. Text is what it holds.
	Path string
	Text []byte
	// Info is the file as it was when it was read: size, time and inode. nil is no
	// file of a disk.
	Info fs.FileInfo
	// Getenv reads the environment; nil is an empty one. A variable that is empty
	// counts as not set.
	Getenv func(string) string
	// Flags are those that are given, by name without dashes.
	Flags map[string]string
	// ReadFile reads what ${file:…} names; nil reads regular files.
	ReadFile func(string) ([]byte, error)
	// CheckStore says what is wrong with the URL of a store, before anybody opens it; nil takes every one.
	CheckStore func(url string) (why, hint string)
	// CheckTopic says why a topic can have no messages in the store of a URL; nil takes every one.
	CheckTopic func(url, topic string) (why, hint string)
	// Kinds are the kinds of pipelines that the file may configure.
	Kinds []*pipeline.Kind
	// Mask masks passwords that the file states plainly, in whatever is shown; nil
	// masks none.
	Mask func(string) string
}

// Find reads the configuration file: the one at path, or the default one if path
// is empty. Without a default one the source is empty.
func Find(path string) (Source, error) {
	s := Source{Path: cmp.Or(path, DefaultFile)}
	err := s.readFile()
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return Source{}, nil
	}
	return s, err
}

// readFile looks at the file before it reads it: what is written meanwhile shows
// when it is looked at again.
func (s *Source) readFile() (err error) {
	if s.Info, err = os.Stat(s.Path); err == nil {
		s.Text, err = readUpTo(s.Path, maxFile)
	}
	return err
}

// readUpTo reads a file, and a byte more than most if there is one.
func readUpTo(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// readSecret reads what ${file:…} names. A device or a pipe may have no end, or never begin.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return readUpTo(path, maxSecretFile)
}

// Settled reports whether the file is unchanged since it was read.
func (s *Source) Settled(before *Source) bool {
	if !bytes.Equal(s.Text, before.Text) || s.Info == nil || before.Info == nil {
		return bytes.Equal(s.Text, before.Text) && s.Info == nil && before.Info == nil
	}
	return s.Info.Size() == before.Info.Size() && s.Info.ModTime().Equal(before.Info.ModTime()) &&
		os.SameFile(s.Info, before.Info)
}

func (s *Source) getenv(name string) string {
	if s.Getenv == nil {
		return ""
	}
	return s.Getenv(name)
}

func (s *Source) read(path string) ([]byte, error) {
	if s.ReadFile != nil {
		return s.ReadFile(path)
	}
	return readSecret(path)
}

func (s *Source) mask(text string) string {
	if s.Mask == nil {
		return text
	}
	return s.Mask(text)
}

// lines are those of the file, fit to be shown.
func (s *Source) lines() []string {
	text := strings.ReplaceAll(string(s.Text), "\r\n", "\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		l = s.mask(strings.ToValidUTF8(l, "\uFFFD"))
		lines[i] = plainSecret.ReplaceAllStringFunc(l, func(pair string) string {
			if strings.Contains(pair, "${") {
				return pair
			}
			return pair[:strings.IndexByte(pair, ':')] + ": " + Mask
		})
	}
	return lines
}

// plainSecret is a key that is called like a secret, with its value.
var plainSecret = regexp.MustCompile(
	`(?i)(?:auth|cookie|session|signature|credential|password|secret|token|api[_-]?key|aes[_-]?key|signing[_-]?key)[a-z0-9_-]*["']?\s*:\s*("[^"]*"|'[^']*'|[^\s,}#][^,}#]*)`)

// secretName reports whether a header is called like a secret.
func secretName(name string) bool { return plainSecret.MatchString(name + ": x") }

// unreadable says why the file is not even looked at.
func (s *Source) unreadable() string {
	switch {
	case len(s.Text) > maxFile:
		return "is larger than 1 MiB"
	case !utf8.Valid(s.Text):
		return "is not UTF-8 text"
	case bytes.Count(s.Text, []byte("\n"))+bytes.Count(s.Text, []byte(":"))+bytes.Count(s.Text,
		[]byte(",")) > maxTokens:
		return fmt.Sprintf("has more than %d lines, colons and commas", maxTokens)
	case tooDeep(s.Text):
		return fmt.Sprintf("is nested more than %d levels deep", maxDepth)
	}
	return ""
}

// maxTokens bounds the work of the parser, which grows with the square of it.
const maxTokens = 20_000

// maxDepth is how deep values may be nested. The parser takes time and memory that grow with the square of it.
const maxDepth = 64

// tooDeep finds nesting before the file is parsed. It counts brackets wherever they are, quotes and comments
// included, and dashes and spaces at the beginning of lines: a file that is not deep but looks so has to be written
// differently.
func tooDeep(text []byte) bool {
	depth := 0
	for line := range bytes.Lines(text) {
		dashes, rest := 0, line
		for {
			trimmed := bytes.TrimLeft(rest, " \t")
			if dashes++; !bytes.HasPrefix(trimmed, []byte("- ")) && !bytes.HasPrefix(trimmed, []byte("? ")) {
				break
			}
			rest = trimmed[2:]
		}
		indent := len(line) - len(bytes.TrimLeft(line, " "))
		if dashes > maxDepth || indent > 8*maxDepth {
			return true
		}
		for _, c := range line {
			switch c {
			case '{', '[':
				depth++
			case '}', ']':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return true
			}
		}
	}
	return false
}
