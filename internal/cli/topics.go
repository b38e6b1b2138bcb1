package cli

import "github.com/spf13/cobra"

func (s *session) topics() *cobra.Command {
	return noun("topics", "Topics: figures, settings, pause, removal",
		`A topic says what kind of work a message is; workers name the topics that they
carry out. Its settings are kept in the store, so that all processes agree.`,
		s.topicsLs(), s.topicsPause(), s.topicsResume(), s.topicsSet(), s.topicsRm())
}
