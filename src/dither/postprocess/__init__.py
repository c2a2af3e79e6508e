"""SQL over answers: what a question does with noisy tables after they were released.

    modes            MODE as a choice from noisy counts
    split_question     the parts that need data, and a statement over their answers
    allowed_functions  what that statement may call
    locked_engine      runs that statement on released tables alone
    combined_result    its table as a result, with the answers that it was made from

Nothing here reads data or spends: whatever is computed from released tables is as private as they
are (post-processing).
"""
