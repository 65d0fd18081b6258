"""The exercises of each chapter: parameters, answers and misconceptions. Their texts stand in
`data/exercises`.
"""
