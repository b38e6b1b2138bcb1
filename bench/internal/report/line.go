// Package report writes what was measured: a JSON line per arm and round, and
// a table for people.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/work"
)

// Line is one arm's round of one work. The names are a contract with whoever
// reads the files.
type Line struct {
	Suite string `json:"suite"`
	Work  string `json:"work"`
	Arm   string `json:"arm"`
	Round int    `json:"round"`
	work.Outcome
	Settings string            `json:"settings"`
	Scale    string            `json:"scale"`
	At       time.Time         `json:"at"`
	Versions map[string]string `json:"versions"`
}

// Append adds a line to the suite's file in dir.
func Append(dir string, l *Line) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder of results: %w", err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, l.Suite+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the file of results: %w", err)
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		_ = f.Close() // the write's error says more
		return fmt.Errorf("write a result: %w", err)
	}
	return f.Close()
}
