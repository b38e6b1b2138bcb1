// Package runbook has the pages of the runbook, for programs that show them.
package runbook

import "embed"

// Pages are the files of this folder: NAME.md.
//
//go:embed *.md
var Pages embed.FS
