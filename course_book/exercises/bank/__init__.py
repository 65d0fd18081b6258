"""Each chapter's exercises: parameters, answers, misconceptions; texts are in `data/exercises`."""
