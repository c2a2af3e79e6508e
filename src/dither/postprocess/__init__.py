"""SQL over answers: what a question does with noisy tables after they were released.

    modes                MODE as a choice from noisy counts
    query_tree           sources, definitions, names and keys of a question
    subquestion_columns  keys and aggregates of one subquestion
    split_question       the subquestions that need data, and a statement over their answers
    ask_subquestions     asks and previews them, for equal shares of the price
    allowed_functions    what the statement may call
    correlated_numbers   a number for each row of a public table, in a condition on rows
    locked_engine        runs the statement on released tables and public rows alone
    combined_result      its table as a result, with the answers that it was made from

Nothing here reads data or spends: whatever is computed from released tables is as private as they
are (post-processing).
"""
