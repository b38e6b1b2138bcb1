package cli

import "github.com/spf13/cobra"

// demo is the living example.
func (s *session) demo() *cobra.Command {
	return &cobra.Command{Use: "demo", Hidden: true, RunE: func(*cobra.Command, []string) error { return nil }}
}
