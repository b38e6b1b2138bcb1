//go:build unix

package e2e

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"
)

// standIns are programs that pages of the documentation call: on a machine that has
// none, this one takes their place.
var standIns = map[string]func(args []string) int{"curl": curl, "sqlite3": sqlite3}

func standIn(bin string) error {
	self, err := os.Executable()
	for name := range standIns {
		if _, missing := exec.LookPath(name); missing != nil && err == nil {
			err = os.Symlink(self, filepath.Join(bin, name))
		}
	}
	return err
}

// sqlite3 runs one statement on a file, and prints the first column.
func sqlite3(args []string) int {
	err := func() error {
		db, err := sql.Open("sqlite", args[0])
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		rows, err := db.Query(args[1])
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			fmt.Println(text)
		}
		return rows.Err()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sqlite3:", err)
		return 1
	}
	return 0
}

// curl prints what a URL answers; 7 is the exit code of one that cannot be reached.
func curl(args []string) int {
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			continue
		}
		client := http.Client{Timeout: 5 * time.Second}
		reply, err := client.Get("http://" + strings.TrimPrefix(a, "http://"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "curl:", err)
			return 7
		}
		_, err = io.Copy(os.Stdout, reply.Body)
		_ = reply.Body.Close()
		if err != nil {
			return 1
		}
	}
	return 0
}
