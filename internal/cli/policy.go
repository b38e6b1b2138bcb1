package cli

import "github.com/spf13/cobra"

func (s *session) policy() *cobra.Command {
	return noun("policy", "Show what becomes of failures, and why",
		`Shows the policy: one matrix of rules decides for every failure whether the work
is repeated and after how long, whether it becomes a dead letter, and how loud
that is. Nothing else decides that.

A failure is looked up by domain, type, phase and kind; then by domain, type and
kind; then by kind; then there is the default.`,
		s.policyLs(), s.policyExplain())
}
